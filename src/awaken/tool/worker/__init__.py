"""Functions that run in processes of their own, and can be stopped for real.

`isolated` is the tool's side; `pool` hands its calls to worker processes; `process` is one worker,
seen from here. `serve` is what runs in a worker. `target` and `wire` belong to both sides.
"""

from awaken.tool.worker.isolated import IsolatedFunction

__all__ = ["IsolatedFunction"]
