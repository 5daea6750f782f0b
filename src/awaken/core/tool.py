"""Tool descriptors, results and errors; the effects of tools; and their progress reports.

A crash may leave the outcome of a call unknown. The tool's effect and its `Recover` policy say what
to do with such a call.
"""

from __future__ import annotations

import re
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Self

import msgspec

from awaken.codec import Json, dumps_text
from awaken.core.identity import RunIdentity
from awaken.core.message import ContentBlock
from awaken.core.suspension import SuspendTicket, ToolCallOutcome
from awaken.core.value import Value, nullable
from awaken.errors import AwakenError


class ToolKind(StrEnum):
    """The kind of a tool, for policies."""

    EXECUTE = "execute"
    READ = "read"
    EDIT = "edit"
    SEARCH = "search"
    OTHER = "other"

    @staticmethod
    @lru_cache(1024)
    def guess(name: str) -> ToolKind:
        """The kind that a tool's name suggests, by whole words: "merge" does not contain "rg"."""
        words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))
        for kind, hints in _KIND_WORDS.items():
            if words & hints:
                return kind
        return ToolKind.OTHER


_KIND_WORDS: dict[ToolKind, frozenset[str]] = {
    kind: frozenset(words.split())
    for kind, words in (
        (ToolKind.EDIT, "edit write patch replace create delete remove move rename"),
        (ToolKind.SEARCH, "search grep find rg"),
        (ToolKind.READ, "read cat view open list ls glob fetch http curl"),
        (ToolKind.EXECUTE, "bash shell exec run command terminal"),
    )
}


def _empty_parameters() -> Json:
    return {"type": "object", "properties": {}}


TOOL_SET = "set"
"""The metadata key of a descriptor with the name of the set that the tool belongs to."""


class ToolDescriptor(Value, frozen=True, kw_only=True):
    """The description of a tool. The model calls it by `id`; `name` is for people.

    `metadata` and `kind` are not sent to the model.
    """

    id: str
    name: str
    description: str
    parameters: Json = msgspec.field(default_factory=_empty_parameters)
    category: str | None = nullable()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    kind: ToolKind | None = None

    @property
    def tool_kind(self) -> ToolKind:
        return self.kind or ToolKind.guess(self.name)

    def matches(self, pattern: str) -> bool:
        """Whether the tool's id matches a pattern with `*` and `?`, or the pattern names its set,
        as in `set:crm`."""
        if pattern.startswith("set:"):
            return self.metadata.get(TOOL_SET) == pattern.removeprefix("set:")
        return fnmatchcase(self.id, pattern)


# -- results and errors -----------------------------------------------------------------------


class ToolStatus(StrEnum):
    """The status of a tool's result."""

    SUCCESS = "success"
    PENDING = "pending"
    ERROR = "error"

    @property
    def outcome(self) -> ToolCallOutcome:
        return _OUTCOMES[self]


_OUTCOMES = {
    ToolStatus.SUCCESS: ToolCallOutcome.SUCCEEDED,
    ToolStatus.PENDING: ToolCallOutcome.SUSPENDED,
    ToolStatus.ERROR: ToolCallOutcome.FAILED,
}


class ToolResult(Value, frozen=True, kw_only=True):
    """The result of a tool call.

    With `content` (texts, pictures, files), the model reads that instead of message and data, and
    the log keeps it in the call's message. Events have the message alone.
    """

    tool_name: str
    status: ToolStatus
    data: Json = nullable()
    message: str | None = nullable()
    suspension: SuspendTicket | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    content: tuple[ContentBlock, ...] = ()

    @classmethod
    def success(cls, name: str, data: Json = None) -> Self:
        return cls(tool_name=name, status=ToolStatus.SUCCESS, data=data)

    @classmethod
    def success_with_message(cls, name: str, data: Json, message: str) -> Self:
        return cls(tool_name=name, status=ToolStatus.SUCCESS, data=data, message=message)

    @classmethod
    def error(cls, name: str, message: str) -> Self:
        return cls(tool_name=name, status=ToolStatus.ERROR, message=message)

    @classmethod
    def error_with_code(cls, name: str, code: str, message: str) -> Self:
        return cls(
            tool_name=name,
            status=ToolStatus.ERROR,
            data={"error": {"code": code, "message": message}},
            message=f"[{code}] {message}",
        )

    @classmethod
    def suspended(cls, name: str, message: str) -> Self:
        return cls(tool_name=name, status=ToolStatus.PENDING, message=message)

    @classmethod
    def suspended_with(cls, name: str, message: str, ticket: SuspendTicket) -> Self:
        return cls(tool_name=name, status=ToolStatus.PENDING, message=message, suspension=ticket)

    @property
    def outcome(self) -> ToolCallOutcome:
        return self.status.outcome

    def model_text(self) -> str:
        """The text for the model: the message, else the data as compact JSON."""
        return self.message if self.message is not None else dumps_text(self.data)

    def resume_payload(self) -> Json:
        """This result as the event `tool_call_resumed` carries it."""
        if self.status is ToolStatus.PENDING:
            return None
        if self.status is ToolStatus.ERROR:
            return {"error": self.message} if self.message is not None else self.data
        return {"data": self.data, "metadata": self.metadata} if self.metadata else self.data


class ToolErrorKind(StrEnum):
    """Why a tool call failed."""

    INVALID_ARGUMENTS = "invalid_arguments"
    EXECUTION_FAILED = "execution_failed"
    DENIED = "denied"
    NOT_FOUND = "not_found"
    INTERNAL = "internal"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    RETRY = "retry"


_PREFIX = {
    ToolErrorKind.INVALID_ARGUMENTS: "Invalid arguments: ",
    ToolErrorKind.EXECUTION_FAILED: "Execution failed: ",
    ToolErrorKind.DENIED: "Denied: ",
    ToolErrorKind.NOT_FOUND: "Not found: ",
    ToolErrorKind.INTERNAL: "Internal error: ",
    ToolErrorKind.TIMEOUT: "Timeout: ",
    ToolErrorKind.CANCELLED: "Cancelled: ",
    ToolErrorKind.RETRY: "Try again: ",
}


class ToolError(AwakenError):
    """Raised by a tool; the model gets the text, and the run continues."""

    def __init__(self, kind: ToolErrorKind, message: str) -> None:
        super().__init__(f"{_PREFIX[kind]}{message}")
        self.kind, self.message = kind, message

    @classmethod
    def invalid_arguments(cls, message: str) -> Self:
        return cls(ToolErrorKind.INVALID_ARGUMENTS, message)

    @classmethod
    def execution_failed(cls, message: str) -> Self:
        return cls(ToolErrorKind.EXECUTION_FAILED, message)

    @classmethod
    def denied(cls, message: str) -> Self:
        return cls(ToolErrorKind.DENIED, message)

    @classmethod
    def not_found(cls, message: str) -> Self:
        return cls(ToolErrorKind.NOT_FOUND, message)

    @classmethod
    def internal(cls, message: str) -> Self:
        return cls(ToolErrorKind.INTERNAL, message)

    @classmethod
    def timeout(cls, message: str) -> Self:
        return cls(ToolErrorKind.TIMEOUT, message)

    @classmethod
    def cancelled(cls, message: str) -> Self:
        return cls(ToolErrorKind.CANCELLED, message)


class Retry(ToolError):
    """Raised by a tool, or a check of an output, so that the model tries again: `raise Retry("use
    the ISO format")`. Calls of a tool are tried again at most `@tool(retries=2)` times in a run.

    A tool that must run once may raise it only before its effect: the call counts as failed.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ToolErrorKind.RETRY, message)


# -- effects, and calls that a crash interrupted ----------------------------------------------


class ToolEffect(StrEnum):
    """A `read` tool changes nothing, an `idempotent` one may be repeated, a `once` one must not."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    ONCE = "once"


class Recover(StrEnum):
    """What to do with a tool call whose outcome is unknown.

    `retry` runs it again, `verify` asks the tool whether it happened, `ask` asks an approver, and
    `report` tells the model that the outcome is unknown.
    """

    RETRY = "retry"
    VERIFY = "verify"
    ASK = "ask"
    REPORT = "report"


OUTCOME_UNKNOWN = "outcome_unknown"
"""The action of a ticket that asks for the outcome of a call, and the mark of such a result."""

MAX_TAKEOVERS = 5
"""How often in a row a run is taken over from a dead process, with nothing new in its message log
or call ledger, before it is abandoned."""

ABANDONED = "abandoned: one process after another died with it, and nothing came of it in between"
"""The error of an abandoned run."""


def error_payload_of(why: str) -> dict[str, str]:
    """The error in the record of a failed run. An abandoned run has a code."""
    if why == ABANDONED:
        return {"message": why, "code": "abandoned"}
    return {"message": why}


# -- progress reports -------------------------------------------------------------------------


PROGRESS_ACTIVITY = "tool-call-progress"
PROGRESS_SCHEMA = "tool-call-progress.v1"


class ProgressStatus(StrEnum):
    """The status of the work that a report is about."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ToolCallProgress(Value, frozen=True, kw_only=True):
    """A progress report of a running tool, in a published format; `progress` goes from 0 to 1."""

    schema: str = msgspec.field(default_factory=lambda: PROGRESS_SCHEMA)
    node_id: str
    call_id: str
    tool_name: str
    status: ProgressStatus
    progress: float | None = None
    loaded: int | None = None
    total: int | None = None
    message: str | None = None
    parent_node_id: str | None = None
    parent_call_id: str | None = None
    run_id: str | None = None
    parent_run_id: str | None = None
    thread_id: str | None = None

    @classmethod
    def of(
        cls,
        call_id: str,
        tool_name: str,
        status: ProgressStatus,
        identity: RunIdentity,
        *,
        message: str | None = None,
        progress: float | None = None,
    ) -> ToolCallProgress:
        parent_call = identity.parent_tool_call_id_opt()
        return cls(
            node_id=f"tool_call:{call_id}",
            call_id=call_id,
            tool_name=tool_name,
            status=status,
            progress=progress,
            message=message,
            parent_node_id=f"tool_call:{parent_call}" if parent_call else f"run:{identity.run_id}",
            parent_call_id=parent_call,
            run_id=identity.run_id,
            parent_run_id=identity.parent_run_id_opt(),
            thread_id=identity.thread_id,
        )
