"""The options for starting a child process."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated

import msgspec

from awaken.core.aio.child_process import DEPTH_VARIABLE, INHERITED_VARIABLES, child_environment
from awaken.core.value import Value

__all__ = ["INHERITED_VARIABLES", "SubprocessOptions", "current_depth", "parse_agent_address"]

MAX_DEPTH = 8
"""The most levels of nested agent processes: an agent that delegates to itself must stop
somewhere."""

_ADDRESS = re.compile(r"python:([^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*)")

VariableName = Annotated[str, msgspec.Meta(pattern=r"^[^=\x00]+$")]


class SubprocessOptions(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `options` of an endpoint.

    Args:
        cwd: the directory the process runs in, from which modules can be imported. By default the
            parent's.
        env: environment variables besides the inherited ones.
        pass_env: names of environment variables to pass on from the parent.
        grace_ms: how long a cancelled process may take to end before it is killed. It is asked
            first, gets SIGTERM after half of that time, and SIGKILL at the end.
        python: the interpreter, which needs `awaken` installed. By default the parent's.
        max_line_bytes: the longest message it may send.
    """

    cwd: str | None = None
    env: dict[VariableName, str] = msgspec.field(default_factory=dict)
    pass_env: tuple[VariableName, ...] = ()
    grace_ms: Annotated[int, msgspec.Meta(ge=0)] = 2_000
    python: str | None = None
    max_line_bytes: Annotated[int, msgspec.Meta(ge=1_024)] = 16 * 1024 * 1024

    def command(self, module: str) -> list[str]:
        # `-P` keeps the folder off the path until our own modules are loaded: a `msgspec.py` in it
        # would be imported instead of the installed one.
        return [self.python or sys.executable, "-P", "-m", module]

    def environment(self) -> dict[str, str]:
        """The child's environment: inherited variables, those of the options, and its depth."""
        return (
            child_environment(self.pass_env) | self.env | {DEPTH_VARIABLE: str(current_depth() + 1)}
        )


def current_depth() -> int:
    """The number of nested agent processes, including this one if it is one."""
    told = os.environ.get(DEPTH_VARIABLE, "0")
    return int(told) if told.isdecimal() else 0


def parse_agent_address(address: str) -> str | None:
    """The `module:name` of an address `python:module:name`; `None` for other addresses."""
    found = _ADDRESS.fullmatch(address)
    return found[1] if found else None
