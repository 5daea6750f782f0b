"""Identities: of runs, and of principals.

A run's identity is its ids, its origin, and how it was started. Principals are the people and
programs that send requests.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

import msgspec

from awaken.core.value import Value


class RunOrigin(StrEnum):
    """What started the run."""

    USER = "user"
    SUBAGENT = "subagent"
    INTERNAL = "internal"
    MCP = "mcp"


class RequestOrigin(StrEnum):
    """What started the run, as it is written in requests and their records."""

    USER = "User"
    A2A = "A2A"
    INTERNAL = "Internal"

    @property
    def run_origin(self) -> RunOrigin:
        return _ORIGINS[self]


_ORIGINS = {
    RequestOrigin.USER: RunOrigin.USER,
    RequestOrigin.A2A: RunOrigin.SUBAGENT,
    RequestOrigin.INTERNAL: RunOrigin.INTERNAL,
}


class RunMode(StrEnum):
    """How the run was started."""

    FOREGROUND = "foreground"
    SCHEDULED = "scheduled"
    RESUME = "resume"
    INTERNAL_WAKE = "internal_wake"


class Adapter(StrEnum):
    """The protocol the request came in by."""

    INTERNAL = "internal"
    ACP = "acp"
    AI_SDK = "ai_sdk"
    AG_UI = "ag_ui"
    A2A = "a2a"
    MCP = "mcp"


def _present(value: str | None) -> str | None:
    return (value.strip() or None) if value is not None else None


def _user() -> RunOrigin:
    return RunOrigin.USER


class RunIdentity(Value, frozen=True, kw_only=True):
    """The ids of a run, of its parent run, thread and call, and how the run was started."""

    thread_id: str
    parent_thread_id: str | None = None
    run_id: str
    parent_run_id: str | None = None
    agent_id: str
    parent_tool_call_id: str | None = None
    dispatch_id: str | None = None
    session_id: str | None = None
    transport_request_id: str | None = None
    origin: RunOrigin = msgspec.field(default_factory=_user)
    run_mode: RunMode = RunMode.FOREGROUND
    adapter: Adapter = Adapter.INTERNAL

    def _with(self, field: str, value: str | None) -> Self:
        return self if _present(value) is None else msgspec.structs.replace(self, **{field: value})

    def with_dispatch_id(self, value: str | None) -> Self:
        return self._with("dispatch_id", value)

    def with_session_id(self, value: str | None) -> Self:
        return self._with("session_id", value)

    def with_transport_request_id(self, value: str | None) -> Self:
        return self._with("transport_request_id", value)

    def with_parent_tool_call_id(self, value: str | None) -> Self:
        return self._with("parent_tool_call_id", value)

    def dispatch_id_opt(self) -> str | None:
        return _present(self.dispatch_id)

    def session_id_opt(self) -> str | None:
        return _present(self.session_id)

    def transport_request_id_opt(self) -> str | None:
        return _present(self.transport_request_id)

    def parent_tool_call_id_opt(self) -> str | None:
        return _present(self.parent_tool_call_id)

    def parent_run_id_opt(self) -> str | None:
        return _present(self.parent_run_id)

    def parent_thread_id_opt(self) -> str | None:
        return _present(self.parent_thread_id)


class Principal(Value, frozen=True, kw_only=True):
    """The authenticated sender of a request.

    `scope` is the tenant whose threads the principal may see; the default scope is the empty text.
    `agents` are the agents the principal may run, or `None` for all of them.
    """

    id: str
    scope: str = ""
    roles: tuple[str, ...] = ()
    agents: tuple[str, ...] | None = None


def id_of(principal: Principal | None) -> str | None:
    """The id of a principal, for records of its actions; `None` without a principal."""
    return principal.id if principal is not None else None


def scope_of(principal: Principal | None) -> str:
    """The scope of a principal; without one the default scope, the empty text."""
    return principal.scope if principal is not None else ""
