"""The parts of preparing a run: its agent, its run id, its commands and the messages it sees."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from awaken.codec import Json, from_json
from awaken.core.budget import BUDGET_LIMIT, Budget
from awaken.core.event import MessagesRewound, ToolCallResumed
from awaken.core.identity import RunIdentity, RunOrigin
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message, Visibility
from awaken.core.rewind import Hidden
from awaken.core.run import PersistedState, RunRecord, RunRequestSnapshot
from awaken.core.state.call_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.core.state.run_keys import ACTIVE_AGENT
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.core.store.commands import CommandKind, ThreadCommand, build_cancels
from awaken.core.store.commits import CallPhase, call_key
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadContext
from awaken.core.suspension import Decision, ResumedOutcome, Ticket, TicketStatus, ToolCallStatus
from awaken.core.thread_ids import child_ids
from awaken.core.tool import OUTCOME_UNKNOWN
from awaken.core.transcript import effective_view
from awaken.engine.call_results import ticket_of, unknown_outcome
from awaken.engine.run_setup import FirstCommit, RunServices
from awaken.engine.suspension import decision_batch
from awaken.errors import InvalidResume, KeyDecode, StateError
from awaken.ids import Ids
from awaken.plugin.env import ExecutionEnv
from awaken.worker.request import RunRequest

log = logging.getLogger("awaken.runtime")
_RUNNING = RunStatus.RUNNING
SUPERSEDED = "[superseded by a new message]"


class RunSelection(msgspec.Struct, kw_only=True, gc=False):
    """The run that was selected for a request: a new one, or a recorded one to continue.

    `state` is the recorded state of a continued run, and `None` for a new one.
    """

    run_id: str
    previous: RunRecord | None = None
    state: PersistedState | None = None

    @property
    def is_continuation(self) -> bool:
        return self.state is not None


def choose_agent(
    request: RunRequest, context: ThreadContext, agent_ids: Callable[[], Sequence[str]]
) -> str:
    """The id of the request's agent, else of the thread's last active agent.

    In a new thread it is the registered agent if there is only one, else `default`.
    Decisions always go to the thread's last active agent, whose calls wait for them.
    """
    latest = context.open_run
    if request.agent_id is not None and not (request.decisions and latest is not None):
        return request.agent_id
    active = context.thread_state.extensions.get(ACTIVE_AGENT.name)
    if isinstance(active, str):
        return active
    if latest is not None:
        return latest.agent_id
    known = agent_ids()
    return known[0] if len(known) == 1 else "default"


async def select_run(
    request: RunRequest, context: ThreadContext, store: Store, ids: Ids
) -> RunSelection:
    """Select the run by the first of these that applies: `continue_run_id`, `run_id_hint`,
    `dispatch_id_hint`, the thread's open run, a new id.

    The caller owns the thread, so an open run recorded as running was left by a process that died.
    It is continued like a waiting one.

    Raises:
        InvalidResume: the run to continue does not exist, is done, or is in another thread; or a
            hinted id is already in use.
    """
    if request.continue_run_id is not None:
        return await _select_named_run(request.continue_run_id, request.thread_id, context, store)
    run = context.open_run
    hint = (request.run_id_hint or "").strip()
    if (hint or request.dispatch_id_hint) and run is not None and run.status is _RUNNING:
        raise InvalidResume(f"run '{run.run_id}' of the thread was cut short: recover it first")
    if hint:
        known = await store.load_run(hint)
        if known is not None and known.status is not RunStatus.CREATED:
            raise InvalidResume(f"run_id_hint '{hint}' already exists as a run")
        return RunSelection(run_id=hint, previous=_without_loaded_fields(known) if known else None)
    hint = (request.dispatch_id_hint or "").strip()
    if hint:
        if await store.load_run(hint) is not None:
            raise InvalidResume(f"dispatch_id_hint '{hint}' already exists as a run")
        return RunSelection(run_id=hint)
    if run is not None and (run.status is _RUNNING or run.is_resumable_waiting()):
        return RunSelection(run_id=run.run_id, previous=run, state=context.run_state)
    return RunSelection(run_id=ids.new())


async def _select_named_run(
    run_id: str, thread_id: str, context: ThreadContext, store: Store
) -> RunSelection:
    run = context.open_run
    if run is not None and run.run_id == run_id:
        record, state = run, context.run_state
    else:
        found = await store.load_run(run_id)
        if found is None:
            raise InvalidResume(f"continue_run_id '{run_id}' does not reference an existing run")
        record, state = _without_loaded_fields(found), await store.load_run_state(run_id)
    if record.thread_id != thread_id:
        raise InvalidResume(f"continue_run_id '{run_id}' belongs to thread '{record.thread_id}'")
    if record.status is RunStatus.DONE:
        raise InvalidResume(f"continue_run_id '{run_id}' is done; start a new run instead")
    return RunSelection(run_id=run_id, previous=record, state=state)


def _without_loaded_fields(record: RunRecord) -> RunRecord:
    """The record without its state and message ids, which stores only fill in on reading."""
    output = record.output and msgspec.structs.replace(record.output, message_ids=())
    return msgspec.structs.replace(record, state=None, output=output)


def run_identity(request: RunRequest, run_id: str, agent_id: str) -> RunIdentity:
    """The identity of the run that a request starts or continues."""
    return RunIdentity(
        thread_id=request.thread_id,
        parent_thread_id=request.parent_thread_id,
        run_id=run_id,
        parent_run_id=request.parent_run_id,
        agent_id=agent_id,
        parent_tool_call_id=_none_if_blank(request.parent_tool_call_id),
        dispatch_id=_none_if_blank(request.dispatch_id),
        session_id=_none_if_blank(request.session_id),
        transport_request_id=_none_if_blank(request.transport_request_id),
        origin=RunOrigin.SUBAGENT if request.parent_tool_call_id else request.origin.run_origin,
        run_mode=request.run_mode,
        adapter=request.adapter,
    )


def _none_if_blank(id: str | None) -> str | None:
    return id if id is not None and id.strip() else None


def request_snapshot(request: RunRequest, sent: Sequence[Message] = ()) -> RunRequestSnapshot:
    """The request as the run's record keeps it. `sent` are messages from stored commands, which
    come before the request's own."""
    asked_with = (*sent, *request.messages)
    return RunRequestSnapshot(
        origin=request.origin,
        input_message_ids=tuple([message.id for message in asked_with if message.id]),
        input_message_count=len(asked_with),
        request_extras=request.extras(),
        frontend_tools=request.frontend_tools,
        parent_thread_id=request.parent_thread_id,
        parent_tool_call_id=request.parent_tool_call_id,
        transport_request_id=request.transport_request_id,
        principal=request.principal,
        user=request.user,
        labels=request.labels,
    )


def complete_request(request: RunRequest, previous: RunRecord | None) -> RunRequest:
    """The request, completed with the parent ids, front-end tools, settings and budget of the run
    that it continues. Principal, user, labels and `deps_key` stay those that the run
    began with."""
    asked = previous.request if previous is not None else None
    if previous is None or asked is None:
        return request
    known: dict[str, Any] = {
        "parent_run_id": request.parent_run_id or previous.parent_run_id,
        "parent_thread_id": request.parent_thread_id or asked.parent_thread_id,
        "parent_tool_call_id": request.parent_tool_call_id or asked.parent_tool_call_id,
        "frontend_tools": request.frontend_tools or asked.frontend_tools,
        "principal": asked.principal,
        "user": asked.user,
        "labels": asked.labels,
    }
    extras = asked.request_extras if isinstance(asked.request_extras, dict) else {}
    if request.settings is None and "overrides" in extras:
        known["settings"] = from_json(extras["overrides"], InferenceOverride)
    if request.budget is None and "budget" in extras:
        known["budget"] = from_json(extras["budget"], Budget)
    if request.forwarded_props is None and "forwarded_props" in extras:
        known["forwarded_props"] = extras["forwarded_props"]
    if "deps_key" in extras:
        known["deps_key"] = extras["deps_key"]
    return msgspec.structs.replace(request, **known)


class PendingCommands(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The commands that wait for a thread, sorted for the run that is about to start.

    `acks` are the ids of the commands that the run's first commit acknowledges. `cancelled` says
    that one of the commands cancels the run.
    """

    messages: tuple[Message, ...] = ()
    decisions: tuple[Decision, ...] = ()
    acks: tuple[int, ...] = ()
    cancelled: bool = False


NO_COMMANDS = PendingCommands()


def sort_commands(commands: Sequence[ThreadCommand], selection: RunSelection) -> PendingCommands:
    """The commands that were stored while the thread had no owner, sorted for the selected run.

    Commands for a submitted run that waits are left for it, and cancels that name another run for
    `submissions.write_ends`. Decisions for any other run that is not continued are acknowledged and
    otherwise ignored, and so are cancels that name none.
    """
    if not commands:
        return NO_COMMANDS
    waiting = {
        command.run_id
        for command in commands
        if command.kind is CommandKind.RUN and command.run_id != selection.run_id
    }
    messages: list[Message] = []
    decisions: list[Decision] = []
    acks: list[int] = []
    cancelled = False
    for command in commands:
        if command.run_id in waiting:
            continue  # it starts when this run has ended
        mine = command.run_id == selection.run_id or (
            selection.is_continuation and command.run_id is None
        )
        if command.kind is CommandKind.CANCEL and mine:
            cancelled = True
            continue  # the commit that ends the run drops the command
        if command.kind is CommandKind.CANCEL and command.run_id is not None:
            continue  # of a run that did not start: it stays until that has its events
        acks.append(command.id)
        if command.kind is CommandKind.MESSAGES:
            messages.extend(command.messages)
        elif command.kind is CommandKind.DECISIONS and mine:
            decisions.extend(command.decisions)
    return PendingCommands(
        messages=tuple(messages),
        decisions=tuple(decisions),
        acks=tuple(acks),
        cancelled=cancelled,
    )


def restore_state(store: StateStore, context: ThreadContext, selection: RunSelection) -> None:
    """Restore the thread's state and, for a continued run, the run's state.

    Raises:
        KeyDecode: a stored value can no longer be decoded by its key.
    """
    store.restore_thread_scoped(context.thread_state, UnknownKeyPolicy.SKIP)
    if selection.state is not None:
        store.restore_run_scoped(selection.state, UnknownKeyPolicy.SKIP)


def public_seed(state: Mapping[str, Json], env: ExecutionEnv) -> PersistedState | None:
    """The values that a client has given for the agent's public keys. Other names, and values that
    do not fit their key, are left out: a client may keep more in its state than the agent does."""
    taken: dict[str, Json] = {}
    for name, value in state.items():
        known = env.keys.get(name)
        if known is None or not (known.key.public and known.persistent):
            continue
        try:
            known.key.load(value)
        except KeyDecode as error:
            log.warning("a client's state was refused: %s", error)
        else:
            taken[name] = value
    return PersistedState(extensions=taken) if taken else None


def set_active_agent(store: StateStore, request: RunRequest, agent_id: str) -> None:
    """Make the requested agent the active one, even if the thread was handed to another.

    If it continues a run of another agent (`agent_id`), it takes over once that agent's calls are
    settled.
    """
    wanted = request.agent_id if not request.decisions else None
    if wanted is not None and wanted != (store.read(ACTIVE_AGENT) or agent_id):
        store.update(ACTIVE_AGENT, wanted)


def filter_stale_decisions(
    store: StateStore, decisions: Sequence[Decision]
) -> tuple[Decision, ...]:
    """The decisions that still answer a suspended call. Outdated ones are logged and left out."""
    kept: list[Decision] = []
    for decision in decisions:
        try:
            decision_batch(store, [*kept, decision])
        except (StateError, InvalidResume) as error:
            log.warning("an answer was refused: %s", error)
        else:
            kept.append(decision)
    return tuple(kept)


def build_missing_results(
    context: ThreadContext, selection: RunSelection, ids: Ids
) -> list[Message]:
    """Tool messages for started calls that have no result and that no run continues.

    A forked thread can have such calls.
    """
    run = context.open_run
    if (
        not context.calls
        or selection.is_continuation
        or (run is not None and run.status is not RunStatus.DONE)
    ):
        return []
    ledger = {entry.key: entry for entry in context.calls}
    answered = {message.tool_call_id for message in context.messages if message.tool_call_id}
    step = next((m for m in reversed(context.messages) if m.tool_calls), None)
    results: list[Message] = []
    for index, call in enumerate(step.tool_calls or () if step else ()):
        entry = ledger.get(call_key((step.id or "") if step else "", index))
        if entry is None or call.id in answered:
            continue
        if entry.held is not None:
            results.append(entry.held)
        elif entry.phase is CallPhase.INTENT:
            told = unknown_outcome(call.name, "the call was running, and no process continues it")
            results.append(Message.tool(call.id, told.model_text(), id=ids.new()))
    return results


def list_superseded_calls(request: RunRequest, store: StateStore) -> list[ToolCallState]:
    """The suspended calls that the request's user message replaces. Returns an empty list if the
    request has no visible user message."""
    states = store.read(TOOL_CALL_STATES)
    if states is None or not any(message.is_visible_user() for message in request.messages):
        return []
    return [call for call in states.calls.values() if call.status is ToolCallStatus.SUSPENDED]


def drop_calls(store: StateStore) -> None:
    """Drop the calls that were open when the state of a rewound thread was written. Their run has
    ended since then, and with it their questions."""
    states = store.read(TOOL_CALL_STATES)
    for call in list(states.calls.values()) if states is not None else ():
        dropped = msgspec.structs.replace(
            call,
            status=ToolCallStatus.CANCELLED,
            suspension_id=None,
            suspension_reason=None,
            resume_input=None,
        )
        store.update(TOOL_CALL_STATES, PutCall(call=dropped))


def add_rewind(first: FirstCommit, request: RunRequest, context: ThreadContext) -> None:
    """Let the run's first commit rewind the thread, if the request says so."""
    to = request.rewinds_to
    if to is None:
        return
    first.rewinds_to = to
    told = MessagesRewound(
        message_id=request.rewind_to or "", from_seq=to + 1, to_seq=context.thread.message_count
    )
    first.events = [told, *first.events]


async def supersede(
    calls: Sequence[ToolCallState],
    store: StateStore,
    identity: RunIdentity,
    services: RunServices,
    first: FirstCommit,
) -> list[Message]:
    """Cancel suspended calls. Returns the tool messages that close them in the log.

    `first` gets their closed tickets, their `ToolCallResumed` events, and the commands that cancel
    the delegates that asked. The message of a call without effect is hidden from the model. The
    message of a call that may have taken effect, or whose delegate has taken actions, says so.
    """
    tickets: list[Ticket] = []
    sends: list[ThreadCommand] = []
    events: list[ToolCallResumed] = []
    marks: list[Message] = []
    for call in calls:
        tickets.append(ticket_of(call, identity, status=TicketStatus.CLOSED))
        # The command to a delegate that the call did not start is dropped by the store.
        asker, thread_id = call.asker, identity.thread_id
        children = (asker.run_id,) if asker is not None else child_ids(thread_id, call.key)
        sends.extend(build_cancels(children, services.clock.now_ms()))
        cancelled = msgspec.structs.replace(
            call, status=ToolCallStatus.CANCELLED, suspension_id=None, suspension_reason=None
        )
        store.update(TOOL_CALL_STATES, PutCall(call=cancelled))
        if call.suspension_reason == BUDGET_LIMIT:
            continue  # the run asked for more budget: the log has no call to close
        known = await _find_known_result(call, identity.thread_id, services)
        mark = Message.tool(call.call_id, known or SUPERSEDED, id=services.ids.new())
        if known is None:
            mark = msgspec.structs.replace(mark, visibility=Visibility.INTERNAL)
        marks.append(mark)
        events.append(
            ToolCallResumed(
                target_id=call.call_id,
                result=None,
                message_id=mark.id or "",
                name=call.tool_name,
                outcome=ResumedOutcome.SUPERSEDED,
                reason=known or "superseded by a new message",
            )
        )
    first.tickets, first.sends, first.events = tickets, sends, events
    return marks


async def _find_known_result(
    call: ToolCallState, thread_id: str, services: RunServices
) -> str | None:
    """The text for the model about a superseded call. Returns `None` if the call had no effect."""
    if call.asker is not None:
        delegates = services.delegates
        done = (
            await delegates.summarize_delegate(thread_id, call.key)
            if delegates is not None
            else None
        )
        return f"superseded; {done}" if done is not None else None
    if call.suspension_reason == OUTCOME_UNKNOWN:
        return unknown_outcome(call.tool_name, "superseded").model_text()
    return None


def last_step(context: ThreadContext, selection: RunSelection) -> Message | None:
    """The thread's last message with tool calls. Returns `None` if the run is new or another run
    produced that message."""
    if not selection.is_continuation:
        return None
    found = next((m for m in reversed(context.messages) if m.tool_calls), None)
    return found if found is not None and found.produced_by_run_id() == selection.run_id else None


def visible_messages(
    log: Sequence[Message],
    store: StateStore,
    step: Message | None,
    *,
    skipped: int = 0,
    hidden: Hidden = (),
) -> list[Message]:
    """The log as the model sees it, including calls that still wait or were interrupted."""
    if not log:
        return []
    states = store.read(TOOL_CALL_STATES)
    waiting = {
        call.call_id
        for call in (states.calls.values() if states else ())
        if call.status is ToolCallStatus.SUSPENDED or call.resume_input is not None
    }
    waiting.update(call.id for call in (step.tool_calls or () if step else ()))
    return effective_view(log, waiting, skipped=skipped, hidden=hidden)
