"""Functions that run in worker processes, which can be killed.

In this process, `isolated` is the tool's side, `pool` assigns calls to workers, and `process`
controls one worker. `serve` runs in the worker. Both sides use `target` and `wire`.
"""

from awaken.tool.isolation.function import IsolatedFunction

__all__ = ["IsolatedFunction"]
