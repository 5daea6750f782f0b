"""What is kept of a run elsewhere: its state, and what its record says."""

from __future__ import annotations

import logging

import msgspec

from awaken.codec import clean_text, dumps, to_json
from awaken.contract.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendLoopError,
    BackendRunOutput,
    ExecutionBackendError,
)
from awaken.contract.store import Store
from awaken.domain.identity import RunIdentity
from awaken.domain.run import (
    PersistedState,
    RunRecord,
    RunRequestSnapshot,
    RunWaitingState,
    WaitingReason,
)
from awaken.errors import AwakenError, describe
from awaken.plugin.agent import ResolvedBackendAgent
from awaken.state.runtime_keys import SPENDING

log = logging.getLogger("awaken.backend")
_replace = msgspec.structs.replace


def backend_kind(agent: ResolvedBackendAgent) -> str:
    """The kind of backend the agent is run by, as its endpoint names it."""
    endpoint = agent.spec.endpoint
    return endpoint.backend if endpoint is not None else type(agent.backend()).__name__


def remote_backend_error_message(error: BaseException) -> str:
    """What went wrong, without the words that say of what kind it is."""
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
    """The state a run is on record with, else the fallback."""
    if store is None:
        return fallback
    try:
        state = await store.load_run_state(run_id)
    except AwakenError as error:
        log.warning("failed to load latest checkpoint state of run %s: %s", run_id, error)
        return fallback
    # What it has used up is no state of its work.
    return state if state.extensions.keys() - {SPENDING.name} else fallback


def encoded(state: PersistedState | None) -> dict[str, msgspec.Raw]:
    """State as a commit takes it.

    Raises:
        TypeError, ValueError: a value in it is no JSON.
    """
    values = state.extensions if state is not None else {}
    return {name: msgspec.Raw(dumps(value)) for name, value in values.items()}


def marked_elsewhere(
    record: RunRecord | None, asked: RunRequestSnapshot | None
) -> RunRecord | None:
    """The record of a run that goes on, which says that it is elsewhere."""
    known = record.request if record is not None else None
    if record is None or known is None or asked is None or known.backend == asked.backend:
        return record
    return _replace(record, request=_replace(known, backend=asked.backend))


def waiting_state(identity: RunIdentity, status_reason: str | None) -> RunWaitingState:
    """Why a run elsewhere waits; what its agent asks is not ours, so there are no tickets here."""
    return RunWaitingState(
        reason=WaitingReason.from_status_reason(status_reason),
        since_dispatch_id=identity.dispatch_id,
        message=status_reason,
    )


def state_with_backend_output(
    state: PersistedState | None, output: BackendRunOutput
) -> PersistedState | None:
    """The state with what came out of the run in it, if anything did."""
    if output == BackendRunOutput():
        return state
    state = state or PersistedState()
    return _replace(
        state, extensions={**state.extensions, BACKEND_OUTPUT_STATE_KEY: to_json(output)}
    )
