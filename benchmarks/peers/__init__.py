"""Other libraries doing the same work, each written as its own users would write it.

They keep nothing between runs, where ours commits to its memory store; tracing and telemetry are
off. Run by `python -m benchmarks --peers` with the python of a venv of their own.
"""
