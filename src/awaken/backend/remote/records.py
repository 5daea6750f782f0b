"""The stored parts of a remote run: its state, its record, its messages and its tickets.

A remote run asks an approver by a ticket. The answer to a question of the agent is sent to the
agent as a message. A decision about the run's budget is applied in this process, and is not sent
to the backend.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from awaken.codec import Json, clean_text, dumps, to_json
from awaken.core.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendLoopError,
    BackendRunOutput,
    ExecutionBackendError,
)
from awaken.core.budget import BUDGET_LIMIT, question_of
from awaken.core.identity import RunIdentity
from awaken.core.message import Message, Role
from awaken.core.run import (
    MessageSeqRange,
    PersistedState,
    RunMessageInput,
    RunMessageOutput,
    RunRecord,
    RunRequestSnapshot,
    RunWaitingState,
    RunWaitingTicket,
    WaitingReason,
)
from awaken.core.state.run_keys import SPENDING
from awaken.core.store.store import Store
from awaken.core.suspension import Ticket, ToolCallResumeMode, call_digest
from awaken.errors import AwakenError, BudgetExhausted, describe
from awaken.plugin.resolved_agent import ResolvedBackendAgent

log = logging.getLogger("awaken.backend")
_replace = msgspec.structs.replace


# -- state ------------------------------------------------------------------------------------


async def load_checkpoint_state(
    store: Store | None, run_id: str, fallback: PersistedState | None
) -> PersistedState | None:
    """The run's stored state, or `fallback` if it has none or cannot be read."""
    if store is None:
        return fallback
    try:
        state = await store.load_run_state(run_id)
    except AwakenError as error:
        log.warning("failed to load latest checkpoint state of run %s: %s", run_id, error)
        return fallback
    # The run's spending alone says nothing about its work.
    return state if state.extensions.keys() - {SPENDING.name} else fallback


def state_with_backend_output(
    state: PersistedState | None, output: BackendRunOutput
) -> PersistedState | None:
    """The state with the run's output added, unless the output is empty."""
    if output == BackendRunOutput():
        return state
    state = state or PersistedState()
    return _replace(
        state, extensions={**state.extensions, BACKEND_OUTPUT_STATE_KEY: to_json(output)}
    )


def encode_state(state: PersistedState | None) -> dict[str, msgspec.Raw]:
    """The state in the form that a commit takes: JSON text by key.

    Raises:
        TypeError, ValueError: a value cannot be encoded as JSON.
    """
    values = state.extensions if state is not None else {}
    return {name: msgspec.Raw(dumps(value)) for name, value in values.items()}


# -- the record -------------------------------------------------------------------------------


def waiting_state(identity: RunIdentity, status_reason: str | None) -> RunWaitingState:
    """The waiting state of a remote run. It lists no ticket: only a question about the budget is
    listed in the record, and `add_ticket` adds that."""
    return RunWaitingState(
        reason=WaitingReason.from_status_reason(status_reason),
        since_dispatch_id=identity.dispatch_id,
        message=status_reason,
    )


def update_backend(record: RunRecord | None, asked: RunRequestSnapshot | None) -> RunRecord | None:
    """The record of a continued run, with the backend of the new request."""
    known = record.request if record is not None else None
    if record is None or known is None or asked is None or known.backend == asked.backend:
        return record
    return _replace(record, request=_replace(known, backend=asked.backend))


def backend_kind(agent: ResolvedBackendAgent) -> str:
    """The kind of the agent's backend: its name in the endpoint, else its class name."""
    endpoint = agent.spec.endpoint
    return endpoint.backend if endpoint is not None else type(agent.backend()).__name__


def remote_backend_error_message(error: BaseException) -> str:
    """The error's message. For our own errors it comes without the error's kind."""
    if isinstance(error, BackendLoopError):
        text = str(error.error)
    elif isinstance(error, ExecutionBackendError):
        text = error.message
    elif isinstance(error, AwakenError):
        text = str(error)
    else:
        text, kind = describe(error), type(error).__name__
        text = text if text == kind else f"{kind}: {text}"
    return clean_text(text)


# -- the log of messages ----------------------------------------------------------------------


def materialize_remote_message_log(
    messages: Sequence[Message],
    previous: RunRecord | None,
    identity: RunIdentity,
    steps: int,
    input_message_count: int,
    *,
    base_seq: int = 0,
) -> tuple[tuple[Message, ...], RunMessageInput | None, RunMessageOutput | None]:
    """Mark the messages that the run produced. Returns all messages, and the ranges of the log that
    the run read and wrote.

    `messages` is the part of the log after `base_seq`; the `previous` record knows the part before.
    Messages that other runs produced are not marked.
    """
    source = (previous.input if previous is not None else None) or whole_log_input(
        identity.thread_id, input_message_count
    )
    start = (
        source.range.to_seq + 1
        if source is not None and source.range is not None
        else input_message_count + 1
    )
    step_index = steps - 1 if steps > 0 else None
    before = previous.output if previous is not None else None
    marked: list[Message] = []
    seqs: list[int] = []
    ids: list[str] = []
    for seq, message in enumerate(messages, start=base_seq + 1):
        mine = message.produced_by_run_id() in (None, identity.run_id)
        if seq >= start and mine and message.role in (Role.ASSISTANT, Role.TOOL):
            message = message.mark_produced_by(identity.run_id, step_index)
            seqs.append(seq)
            ids.extend([message.id] if message.id is not None else [])
        marked.append(message)
    if not seqs:
        return tuple(marked), source, before
    low = seqs[0]
    if base_seq and before is not None and before.range is not None:
        low, ids = min(low, before.range.from_seq), [*before.message_ids, *ids]
    output = RunMessageOutput(
        thread_id=identity.thread_id,
        range=MessageSeqRange.new(low, seqs[-1]),
        message_ids=tuple(ids),
    )
    return tuple(marked), source, output


def whole_log_input(thread_id: str, count: int) -> RunMessageInput | None:
    """The whole log of `count` messages as a run's input; `None` if it is empty."""
    if count == 0:
        return None
    return RunMessageInput(thread_id=thread_id, range=MessageSeqRange.new(1, count))


# -- tickets ----------------------------------------------------------------------------------

_APPROVER_REASONS = (WaitingReason.USER_INPUT, WaitingReason.TOOL_PERMISSION)


def agent_ticket(record: RunRecord, said: str | None, at_ms: int) -> Ticket | None:
    """The ticket of a waiting run. Returns `None` if the run does not wait for an approver."""
    waiting = record.waiting
    if waiting is None or waiting.reason not in _APPROVER_REASONS:
        return None
    return _ticket(
        record.run_id,
        record.thread_id,
        record.revision,
        at_ms,
        tool_name=record.agent_id,
        reason=waiting.message,
        message=said or f"agent '{record.agent_id}' waits for an answer",
        resume_mode=ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT,
    )


def budget_ticket(
    identity: RunIdentity, revision: int, error: BudgetExhausted, at_ms: int
) -> Ticket:
    """The ticket that asks whether a run may exceed its budget."""
    return _ticket(
        identity.run_id,
        identity.thread_id,
        revision,
        at_ms,
        tool_name="budget",
        arguments=question_of(error),
        reason=BUDGET_LIMIT,
        message=f"{error}. Allow more?",
    )


def add_ticket(record: RunRecord, question: Ticket) -> RunRecord:
    """The record of a waiting run, with its ticket added."""
    assert record.waiting is not None, "only a waiting run has a ticket"
    waiting = _replace(
        record.waiting, ticket_ids=(question.ticket_id,), tickets=(RunWaitingTicket.of(question),)
    )
    return _replace(record, waiting=waiting)


def _ticket(
    run_id: str,
    thread_id: str,
    revision: int,
    at_ms: int,
    *,
    tool_name: str,
    arguments: Json = None,
    reason: str | None,
    message: str,
    resume_mode: ToolCallResumeMode = ToolCallResumeMode.REPLAY_TOOL_CALL,
) -> Ticket:
    # Each commit of the record has a new revision and opens at most one ticket, so the key is
    # unique.
    key = f"{run_id}:question-{revision}"
    return Ticket(
        key=key,
        thread_id=thread_id,
        run_id=run_id,
        ticket_id=key,
        call_id=key,
        tool_name=tool_name,
        digest=call_digest(key, tool_name, arguments),
        asked_at=at_ms,
        arguments=arguments,
        resume_mode=resume_mode,
        reason=reason,
        message=message,
    )
