"""From a request to a run that can start: which agent, which run, which conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from awaken.contract.commits import Commits
from awaken.domain.identity import RunIdentity
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message, Visibility
from awaken.domain.run import PersistedState, RunRecord, RunRequestSnapshot
from awaken.domain.suspension import ToolCallStatus
from awaken.domain.thread import Thread
from awaken.domain.transcript import effective_view
from awaken.errors import InvalidResume
from awaken.ids import Ids
from awaken.runtime.request import RunRequest
from awaken.state.runtime_keys import ACTIVE_AGENT, TOOL_CALL_STATES, PutCall
from awaken.state.store import StateStore, UnknownKeyPolicy

SUPERSEDED = "[superseded by a new message]"


class ThreadFacts(msgspec.Struct, kw_only=True, gc=False):
    """What is known of a thread before a run."""

    thread: Thread | None = None
    latest: RunRecord | None = None
    state: PersistedState = msgspec.field(default_factory=PersistedState)
    messages: Sequence[Message] = ()

    @classmethod
    async def read(cls, commits: Commits, thread_id: str) -> ThreadFacts:
        thread = await commits.load_thread(thread_id)
        if thread is None:
            return cls()
        return cls(
            thread=thread,
            latest=await commits.latest_run(thread_id),
            state=await commits.load_thread_state(thread_id),
            messages=await commits.load_messages(thread_id),
        )


class RunChoice(msgspec.Struct, kw_only=True, gc=False):
    """The run to be: new, or the continuation of a recorded one."""

    run_id: str
    previous: RunRecord | None = None
    is_continuation: bool = False


def choose_agent(
    request: RunRequest, facts: ThreadFacts, agent_ids: Callable[[], Sequence[str]]
) -> str:
    """The agent asked for, else the one that spoke last in the thread, else `default`.

    A runtime that has one agent only means that one.

    Decisions belong to the agent whose calls wait, whoever was asked for first.
    """
    if request.agent_id is not None and not (request.decisions and facts.latest is not None):
        return request.agent_id
    active = facts.state.extensions.get(ACTIVE_AGENT.name)
    if isinstance(active, str):
        return active
    if facts.latest is not None:
        return facts.latest.agent_id
    known = agent_ids()
    return known[0] if len(known) == 1 else "default"


async def choose_run(
    request: RunRequest, facts: ThreadFacts, commits: Commits, ids: Ids
) -> RunChoice:
    """The first rule that applies: continue, hint, dispatch, a waiting run, a new id.

    Raises:
        InvalidResume: the run named does not exist, exists already, or is another thread's.
    """
    if request.continue_run_id is not None:
        return await _named(request.continue_run_id, request.thread_id, commits)
    hint = (request.run_id_hint or "").strip()
    if hint:
        known = await commits.load_run(hint)
        if known is not None and known.status is not RunStatus.CREATED:
            raise InvalidResume(f"run_id_hint '{hint}' already exists as a run")
        return RunChoice(run_id=hint, previous=known)
    hint = (request.dispatch_id_hint or "").strip()
    if hint:
        if await commits.load_run(hint) is not None:
            raise InvalidResume(f"dispatch_id_hint '{hint}' already exists as a run")
        return RunChoice(run_id=hint)
    waiting = await _waiting_run(facts, commits)
    if waiting is not None:
        return RunChoice(run_id=waiting.run_id, previous=waiting, is_continuation=True)
    return RunChoice(run_id=ids.new())


async def _named(run_id: str, thread_id: str, commits: Commits) -> RunChoice:
    record = await commits.load_run(run_id)
    if record is None:
        raise InvalidResume(f"continue_run_id '{run_id}' does not reference an existing run")
    if record.thread_id != thread_id:
        raise InvalidResume(f"continue_run_id '{run_id}' belongs to thread '{record.thread_id}'")
    if record.status is RunStatus.DONE:
        raise InvalidResume(f"continue_run_id '{run_id}' is done; start a new run instead")
    return RunChoice(run_id=run_id, previous=record, is_continuation=True)


async def _waiting_run(facts: ThreadFacts, commits: Commits) -> RunRecord | None:
    if facts.thread is None:
        return None
    record = facts.latest
    open_id = facts.thread.open_run_id
    if open_id is not None and (record is None or record.run_id != open_id):
        record = await commits.load_run(open_id)
    return record if record is not None and record.is_resumable_waiting() else None


def run_identity(request: RunRequest, run_id: str, agent_id: str) -> RunIdentity:
    return (
        RunIdentity(
            thread_id=request.thread_id,
            parent_thread_id=request.parent_thread_id,
            run_id=run_id,
            parent_run_id=request.parent_run_id,
            agent_id=agent_id,
            origin=request.origin.run_origin,
            run_mode=request.run_mode,
            adapter=request.adapter,
        )
        .with_dispatch_id(request.dispatch_id)
        .with_session_id(request.session_id)
        .with_transport_request_id(request.transport_request_id)
    )


def request_snapshot(request: RunRequest) -> RunRequestSnapshot:
    return RunRequestSnapshot(
        origin=request.origin,
        input_message_ids=tuple([message.id for message in request.messages if message.id]),
        input_message_count=len(request.messages),
        parent_thread_id=request.parent_thread_id,
        transport_request_id=request.transport_request_id,
    )


def restore_state(store: StateStore, facts: ThreadFacts, choice: RunChoice) -> None:
    """Bring back the thread's state and, for a continuation, the run's own.

    Raises:
        KeyDecode: a stored value does not fit its key any more.
    """
    store.restore_thread_scoped(facts.state, UnknownKeyPolicy.SKIP)
    if choice.is_continuation and choice.previous is not None and choice.previous.state:
        run_state = {
            name: value
            for name, value in choice.previous.state.extensions.items()
            if name not in facts.state.extensions
        }
        store.apply_seed(PersistedState(extensions=run_state), UnknownKeyPolicy.SKIP)


def hand_to(store: StateStore, request: RunRequest, agent_id: str) -> None:
    """Let the agent asked for speak, also in a thread that was handed to another."""
    active = store.read(ACTIVE_AGENT)
    if request.agent_id == agent_id and active is not None and active != agent_id:
        store.update(ACTIVE_AGENT, agent_id)


def supersede(request: RunRequest, store: StateStore, ids: Ids) -> list[Message]:
    """Give up suspended calls that a new user message has overtaken.

    Returns the marks that retract them in the log. With decisions, nothing is given up.
    """
    if request.decisions or not any(message.is_visible_user() for message in request.messages):
        return []
    states = store.read(TOOL_CALL_STATES)
    marks: list[Message] = []
    for call in list(states.calls.values()) if states else ():
        if call.status is not ToolCallStatus.SUSPENDED:
            continue
        cancelled = msgspec.structs.replace(
            call, status=ToolCallStatus.CANCELLED, suspension_id=None, suspension_reason=None
        )
        store.update(TOOL_CALL_STATES, PutCall(call=cancelled))
        mark = Message.tool(call.call_id, SUPERSEDED, id=ids.new())
        marks.append(msgspec.structs.replace(mark, visibility=Visibility.INTERNAL))
    return marks


def visible_messages(log: Sequence[Message], store: StateStore) -> list[Message]:
    """What the model may see of the log, calls that still wait included."""
    states = store.read(TOOL_CALL_STATES)
    waiting = {
        call.call_id
        for call in (states.calls.values() if states else ())
        if call.status is ToolCallStatus.SUSPENDED or call.resume_input is not None
    }
    return effective_view(log, waiting)
