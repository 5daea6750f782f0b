"""The request for a run, and its options."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from awaken.core.deps import RunDeps
from awaken.core.identity import RunMode
from awaken.core.store.commands import RunInput
from awaken.core.suspension import sign_decisions
from awaken.core.thread import check_labels
from awaken.errors import ConfigError

if TYPE_CHECKING:
    from awaken.core.account import Account
    from awaken.core.inbox import InboxReceiver


class RequestKind(StrEnum):
    """A new run, one continued with an approver's decisions, or one continued without."""

    NEW = "new"
    HITL_RESUME = "hitl_resume"
    CONTINUATION = "continuation"


class WhenBusy(StrEnum):
    """Whether a request is refused or waits if a process already runs its thread."""

    REFUSE = "refuse"
    QUEUE = "queue"


class ParentContext(msgspec.Struct, frozen=True, kw_only=True):
    """A delegate's budget account, depth and dependencies, as its parent run passes them on."""

    budget: Account | None = None
    depth: int = 0
    deps: RunDeps | None = None


class RunRequest(RunInput, frozen=True, kw_only=True):
    """A request to start or continue a run, now and in this process.

    - `thread_id`, `agent_id`, `continue_run_id`: which run.
    - `rewinds_to`: the position in the log that `rewind_to` means, if the caller knows it already.
    - `budget`: limits that replace the agent's own.
    - `wait_for_decisions`: a suspended run stays live, and decisions can be sent to it. Otherwise
      it pauses, and a later request continues it.
    - `when_busy`: whether the request is refused or waits while the thread has a live run.
    - `left_on_close`: if the runtime closes first, the run stays open for another process.
    - `deps`: the dependencies of the run, which are not stored.

    A new run keeps its principal, user and labels, and a thread that it creates has them, too. The
    ids and hints say where the request comes from.
    """

    messages_already_persisted: bool = False
    agent_id: str | None = None
    wait_for_decisions: bool = True
    when_busy: WhenBusy = WhenBusy.REFUSE
    left_on_close: bool = False
    rewinds_to: int | None = None
    run_mode: RunMode = RunMode.FOREGROUND
    parent_run_id: str | None = None
    parent_thread_id: str | None = None
    parent_tool_call_id: str | None = None
    continue_run_id: str | None = None
    run_id_hint: str | None = None
    dispatch_id_hint: str | None = None
    run_inbox: InboxReceiver | None = None
    deps: RunDeps | None = None

    def __post_init__(self) -> None:
        _check_id("thread_id", self.thread_id)
        if self.agent_id is not None:
            _check_id("agent_id", self.agent_id)
        if self.continue_run_id is not None:
            _check_id("continue_run_id", self.continue_run_id)
        if self.labels:
            check_labels(self.labels)

    def signed(self) -> RunRequest:
        """The request with its principal as the approver of its decisions, even if they name
        another one."""
        if self.principal is None or not self.decisions:
            return self
        decisions = sign_decisions(self.decisions, self.principal.id)
        return msgspec.structs.replace(self, decisions=decisions)

    @property
    def names_no_run(self) -> bool:
        """Whether the run is not one that exists, nor has an id that the caller chose."""
        return (
            self.continue_run_id is None
            and self.run_id_hint is None
            and self.dispatch_id_hint is None
        )

    @property
    def kind(self) -> RequestKind:
        if self.continue_run_id is None:
            return RequestKind.NEW
        return RequestKind.HITL_RESUME if self.decisions else RequestKind.CONTINUATION


def _check_id(name: str, id: str) -> None:
    if not id.strip():
        raise ConfigError(f"a run request's {name} must not be blank")


def continuation(request: RunRequest, run_id: str) -> RunRequest:
    """The request changed to continue the run `run_id`, without new input."""
    # Without `agent_id`: the run may have been handed to another agent.
    return msgspec.structs.replace(
        request,
        agent_id=None,
        messages=(),
        decisions=(),
        rewind_to=None,
        rewinds_to=None,
        continue_run_id=run_id,
    )
