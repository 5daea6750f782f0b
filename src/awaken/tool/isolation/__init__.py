"""Functions that run in worker processes, which can be killed.

In this process, `function` is the tool's side, `pool` assigns calls to workers, and `process`
controls one worker. `child_main` runs in the worker. Both sides use `target` and `frames`.
"""

from awaken.tool.isolation.function import IsolatedFunction

__all__ = ["IsolatedFunction"]
