"""The stored parts of a remote run: its state and details of its record."""

from __future__ import annotations

import logging

import msgspec

from awaken.codec import clean_text, dumps, to_json
from awaken.core.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendLoopError,
    ExecutionBackendError,
)
from awaken.core.backend_result import BackendRunOutput
from awaken.core.identity import RunIdentity
from awaken.core.run import (
    PersistedState,
    RunRecord,
    RunRequestSnapshot,
    RunWaitingState,
    WaitingReason,
)
from awaken.core.state.runtime_keys import SPENDING
from awaken.core.store.store import Store
from awaken.errors import AwakenError, describe
from awaken.plugin.resolved_agent import ResolvedBackendAgent

log = logging.getLogger("awaken.backend")
_replace = msgspec.structs.replace


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


def encoded(state: PersistedState | None) -> dict[str, msgspec.Raw]:
    """The state in the form that a commit takes: JSON text by key.

    Raises:
        TypeError, ValueError: a value cannot be encoded as JSON.
    """
    values = state.extensions if state is not None else {}
    return {name: msgspec.Raw(dumps(value)) for name, value in values.items()}


def marked_elsewhere(
    record: RunRecord | None, asked: RunRequestSnapshot | None
) -> RunRecord | None:
    """The record of a continued run, with the backend of the new request."""
    known = record.request if record is not None else None
    if record is None or known is None or asked is None or known.backend == asked.backend:
        return record
    return _replace(record, request=_replace(known, backend=asked.backend))


def waiting_state(identity: RunIdentity, status_reason: str | None) -> RunWaitingState:
    """The waiting state of a remote run. It lists no ticket: only a question about the budget is
    listed in the record, and `asking` adds that."""
    return RunWaitingState(
        reason=WaitingReason.from_status_reason(status_reason),
        since_dispatch_id=identity.dispatch_id,
        message=status_reason,
    )


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
