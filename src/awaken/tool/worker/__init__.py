"""Functions that run in processes of their own, and can be stopped for real.

`isolated` is one tool's side, `pool` shares its processes out, `process` is one of them seen from
here. `serve`, with `lifeline`, is what runs over there; `target` and `wire` belong to both.
"""

from awaken.tool.worker.isolated import IsolatedFunction

__all__ = ["IsolatedFunction"]
