"""The routes of AG-UI: run an agent, watch a thread, describe an agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import aclosing

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp

from awaken.codec import Json
from awaken.core.event import MessagesSnapshot, RunEvent, StateSnapshot
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.message import Role as MessageRole
from awaken.core.run import RunRecord
from awaken.core.store.threads import ThreadContext, ThreadQuery, TicketQuery
from awaken.errors import KeyReused
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedExecution
from awaken.runtime.live.follow import EventFollower
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.errors import HttpRefusal, not_found_error
from awaken.server.protocols.ag_ui.encode import AgUiEncoder, WatchedRun
from awaken.server.protocols.ag_ui.ingest import (
    INTERRUPTS_PENDING,
    NOTHING_NEW,
    IngestResult,
    ingest,
)
from awaken.server.protocols.ag_ui.messages import (
    WireMessage,
    behind_call,
    wire_messages,
    with_edits,
)
from awaken.server.protocols.ag_ui.reconcile import is_current
from awaken.server.protocols.ag_ui.state import capabilities
from awaken.server.protocols.ag_ui.wire import PROTOCOL_VERSION, RunAgentInput, parse_input
from awaken.server.protocols.base import BadRequest, KnownThread
from awaken.server.route import CHAT_LIMIT, KeyRole, Route
from awaken.server.run_events import follow_run, leave_callback, with_media
from awaken.server.sse import HEADERS, SseResponse, data_frame, until_run_ends
from awaken.server.submit import carry_out, load_known, load_visible_thread

DOCS = "https://docs.ag-ui.com"
_MAX_RESULTS = 1_000
_AT_WORK = (RunStatus.CREATED, RunStatus.RUNNING)
_replace = msgspec.structs.replace


# -- a run ------------------------------------------------------------------------------------


async def run(call: ApiCall) -> ASGIApp:
    """Submit what a client asks for, and stream the run."""
    asked = parse_input(call.body)
    thread_id = call.ids.new(asked.thread_id)
    stored = await load_known(call, thread_id)
    latest = await call.runtime.store.latest_run(thread_id)
    before = await _load_known_before(call, stored, latest, asked)
    try:
        return await _carry_out(call, asked, stored, latest, before)
    except KeyReused:
        if latest is None or not _is_repeated(latest, asked):
            raise
        # The request asked for another answer to a message of the thread.
        return await _carry_out(call, asked, stored, latest, _with_question(stored, latest, asked))


async def _carry_out(
    call: ApiCall,
    asked: RunAgentInput,
    stored: KnownThread,
    latest: RunRecord | None,
    before: KnownThread,
) -> ASGIApp:
    """Submit a request, given what was known before it, and stream the run.

    Raises:
        KeyReused: the client has sent another request with this `runId`.
    """
    thread_id = call.ids.new(asked.thread_id)
    try:
        taken = ingest(asked, before, _agent_id(call))
    except BadRequest as error:
        if error.code == NOTHING_NEW and latest is not None and _is_of(latest, asked):
            return await _watch(call, thread_id, asked)
        if error.code != INTERRUPTS_PENDING:
            raise
        return _frames([{"type": "RUN_ERROR", "message": str(error), "code": error.code}])
    if latest is not None and _is_at_work(latest, taken):
        return await _watch(call, thread_id, asked)
    submitted = await carry_out(call, _replace(taken.intake, thread_id=thread_id))
    record = await call.runtime.find_run(submitted.run_id)
    if record is None:
        raise not_found_error("run")
    watched = WatchedRun(
        thread_id=asked.thread_id,
        client_run_id=asked.run_id,
        run_id=call.ids.outside(submitted.run_id),
        agent_id=taken.intake.agent_id or "",
        messages=asked.messages,
        state=asked.state,
        answered=taken.answered,
        is_1_0=asked.protocol_version == PROTOCOL_VERSION,
    )
    is_open = latest is not None and latest.status in _AT_WORK
    if is_open or not is_current(asked.messages, wire_messages(stored.messages)):
        return await _stream(call, record, submitted.cursor, watched, stored)
    return await _stream(call, record, submitted.cursor, watched)


async def _load_known_before(
    call: ApiCall, stored: KnownThread, latest: RunRecord | None, asked: RunAgentInput
) -> KnownThread:
    """What the store had before this request: a client that has lost the answer sends the same
    request again, and gets the same run. Tickets that are answered are included.

    A request that answers interrupts is never such a repetition of the run's first request, even if
    it has the same `runId`: CopilotKit sends its answers under the id of the run that asks.
    """
    if latest is None:
        return stored
    if _is_repeated(latest, asked):
        return _without(stored, _input_message_ids(latest))
    tickets = await call.runtime.list_tickets(TicketQuery(run_id=latest.run_id, limit=_MAX_RESULTS))
    return KnownThread(messages=stored.messages, tickets=tickets.items)


def _with_question(stored: KnownThread, latest: RunRecord, asked: RunAgentInput) -> KnownThread:
    """What the store had before a request for another answer: with the message to answer, and
    without the context that the application sent with the request."""
    sent = {message.id for message in asked.parse_messages()}
    return _without(stored, set(_input_message_ids(latest)) - sent)


def _without(stored: KnownThread, hidden: Collection[str]) -> KnownThread:
    return KnownThread(messages=tuple([one for one in stored.messages if one.id not in hidden]))


def _input_message_ids(run: RunRecord) -> tuple[str, ...]:
    """The ids of the messages that a run was to answer."""
    return run.request.input_message_ids if run.request is not None else ()


def _is_repeated(latest: RunRecord, asked: RunAgentInput) -> bool:
    """Whether the request may be the one that began the thread's latest run, sent again."""
    return _is_of(latest, asked) and not asked.answers()


def _is_of(latest: RunRecord, asked: RunAgentInput) -> bool:
    """Whether the request has the id of the one that began the thread's latest run. A client whose
    connection broke sends it again, and adds what it received of the run to the messages."""
    return latest.transport_request_id == asked.run_id


def _is_at_work(latest: RunRecord, taken: IngestResult) -> bool:
    """Whether the run that answers this message is still open: the client has lost its stream."""
    return latest.status in _AT_WORK and taken.intake.rewind_to in _input_message_ids(latest)


# -- a thread ---------------------------------------------------------------------------------


async def connect(call: ApiCall) -> ASGIApp:
    """Stream a thread: its messages and state, then its open run. A thread that does not exist yet
    has none: clients connect to it before their first message."""
    thread_id = call.ids.new(call.path("thread"))
    if await load_visible_thread(call, thread_id) is not None:
        return await _watch(call, thread_id)
    outside = call.ids.outside(thread_id)
    nothing = WatchedRun(thread_id=outside, client_run_id="none", run_id="", sends_history=True)
    encoder = AgUiEncoder(_replace(nothing, is_1_0=_is_1_0(call, None)))
    return _frames([*encoder.start(), *encoder.end(())])


async def _watch(call: ApiCall, thread_id: str, asked: RunAgentInput | None = None) -> ASGIApp:
    context = await call.runtime.store.load_context(thread_id)
    if context is None:
        raise not_found_error("thread")
    record = await _run_to_watch(call, context)
    agent_id = record.agent_id if record is not None else ""
    shown = await with_media(call, await _with_edits(call, thread_id, _in_view(context)))
    watched = WatchedRun(
        thread_id=call.ids.outside(thread_id),
        client_run_id=_client_run_id(record, asked),
        run_id=call.ids.outside(record.run_id) if record is not None else "",
        agent_id=agent_id,
        messages=await _with_delegates(call, thread_id, wire_messages(shown)),
        state=_state_of(context, _public_keys(call, agent_id)),
        sends_history=True,
        is_1_0=_is_1_0(call, asked),
    )
    if record is None or _is_at_rest(record, context):
        encoder = AgUiEncoder(watched)
        waiting = record.waiting if record is not None else None
        tickets = [call.ids.question(ticket) for ticket in waiting.tickets] if waiting else []
        return _frames([*encoder.start(), *encoder.end(tickets)])
    return await _stream(call, record, context.thread.event_count, watched)


async def _run_to_watch(call: ApiCall, context: ThreadContext) -> RunRecord | None:
    """The open run, else the next one that was submitted, else the latest."""
    latest = context.open_run
    if latest is not None and latest.status is not RunStatus.DONE:
        return latest
    queued = [c.submission.run_id for c in context.commands if c.submission is not None]
    return await call.runtime.find_run(queued[0]) if queued else latest


def _is_at_rest(record: RunRecord, context: ThreadContext) -> bool:
    """Whether a run has no more events to come: it is over, or waits and has no new commands."""
    if record.status is RunStatus.WAITING:
        return not any(c.run_id in (None, record.run_id) for c in context.commands)
    return record.status is RunStatus.DONE


def _in_view(context: ThreadContext) -> list[Message]:
    """The messages of a thread, with those that no run has read yet."""
    found = list(context.messages)
    for command in context.commands:
        asked = command.submission
        if asked is not None and asked.rewind_to is not None:
            ids = [message.id for message in found]
            if asked.rewind_to in ids:
                del found[ids.index(asked.rewind_to) :]
        found += command.messages if asked is None else asked.messages
    return found


async def _with_edits(call: ApiCall, thread_id: str, messages: list[Message]) -> list[Message]:
    """The messages, with the arguments of calls as their approvers have changed them."""
    query = TicketQuery(thread_id=thread_id, limit=_MAX_RESULTS)
    tickets = (await call.runtime.list_tickets(query)).items
    return with_edits(messages, tickets)


async def _with_delegates(
    call: ApiCall, thread_id: str, messages: list[WireMessage]
) -> list[WireMessage]:
    """The messages, with those of delegates behind the calls that started them."""
    query = ThreadQuery(ancestor_thread_id=thread_id, limit=_MAX_RESULTS)
    descendants = (await call.runtime.list_threads(query)).items
    for thread in sorted(descendants, key=lambda thread: thread.created_at):
        run = await call.runtime.store.latest_run(thread.id)
        asked = run.request if run is not None else None
        if run is None or asked is None or asked.parent_tool_call_id is None:
            continue
        log = await _with_edits(call, thread.id, list(await call.runtime.messages(thread.id)))
        answers = [message for message in log if message.role is not MessageRole.USER]
        tag = call.ids.outside(run.run_id)
        theirs = [{**message, "subagentRunId": tag} for message in wire_messages(answers)]
        messages = behind_call(messages, asked.parent_tool_call_id, theirs)
    return messages


def _client_run_id(record: RunRecord | None, asked: RunAgentInput | None) -> str:
    if asked is not None:
        return asked.run_id
    return (record.transport_request_id or record.run_id) if record is not None else "none"


def _is_1_0(call: ApiCall, asked: RunAgentInput | None) -> bool:
    if asked is not None:
        return asked.protocol_version == PROTOCOL_VERSION
    return call.request.query_params.get("protocolVersion") == PROTOCOL_VERSION


# -- events -----------------------------------------------------------------------------------


async def _stream(
    call: ApiCall,
    run: RunRecord,
    after: int,
    watched: WatchedRun,
    stored: KnownThread | None = None,
) -> SseResponse[RunEvent]:
    """A stream of a run until it ends or pauses. With `stored`, what the log had before
    the run, it begins with the log as it is when the run starts."""
    is_last = until_run_ends(watched.run_id)
    events = follow_run(call, run, after=after)
    if stored is not None:
        events = EventFollower(_with_log(call, run, events, watched, stored))
    if public := _public_keys(call, watched.agent_id):
        events = EventFollower(_with_state(call, run.thread_id, events, is_last, public))
    leaving = await leave_callback(call, run.thread_id, run.thread_id)
    return SseResponse(
        events, AgUiEncoder(watched), is_last=is_last, cut_when_closed=True, on_leave=leaving
    )


async def _with_log(
    call: ApiCall, run: RunRecord, events: EventFollower, watched: WatchedRun, stored: KnownThread
) -> AsyncGenerator[list[RunEvent], None]:
    """The events, and before the first event of the run the log as it is then, if the client does
    not have all of it. An earlier run has ended by then: an answer of which the client has read a
    part is in the log, or was taken back. The run's own messages come as its events."""
    before = {message.id for message in stored.messages}
    is_due = True
    async with aclosing(events):
        async for batch in events.batches():
            first = next((e for e in batch if e.run_id == watched.run_id), None) if is_due else None
            if first is None:
                yield batch
                continue
            is_due = False
            log = [
                message
                for message in (await load_known(call, run.thread_id)).messages
                if message.id in before or message.produced_by_run_id() != run.run_id
            ]
            if is_current(watched.messages, wire_messages(log)):
                yield batch
                continue
            shown = await with_media(call, await _with_edits(call, run.thread_id, log))
            whole = _replace(first, seq=None, event=MessagesSnapshot(messages=tuple(shown)))
            index = batch.index(first)
            yield [*batch[:index], whole, *batch[index:]]


async def _with_state(
    call: ApiCall,
    thread_id: str,
    events: EventFollower,
    is_last: Callable[[RunEvent], bool],
    public: Collection[str],
) -> AsyncGenerator[list[RunEvent], None]:
    """The events, and before the last one the whole state as it is then, for a client that has
    missed changes of it."""
    async with aclosing(events):
        async for batch in events.batches():
            last = next((index for index, event in enumerate(batch) if is_last(event)), None)
            context = None
            if last is not None:
                context = await call.runtime.store.load_context(thread_id, tail=0)
            if last is None or context is None:
                yield batch
                continue
            state = StateSnapshot(snapshot={"extensions": _state_of(context, public)})
            yield [*batch[:last], _replace(batch[last], seq=None, event=state), *batch[last:]]


def _state_of(context: ThreadContext, public: Collection[str]) -> dict[str, Json]:
    """The values of public state keys."""
    stored = {**context.thread_state.extensions, **context.run_state.extensions}
    return {name: stored[name] for name in public if name in stored}


def _public_keys(call: ApiCall, agent_id: str) -> list[str]:
    agent = _resolve_agent(call, agent_id)
    keys = agent.env.keys if isinstance(agent, ResolvedAgent) else {}
    return sorted(name for name, known in keys.items() if known.key.public and known.persistent)


# -- an agent ---------------------------------------------------------------------------------


async def describe(call: ApiCall) -> ASGIApp:
    """The capabilities of an agent."""
    agent_id = _agent_id(call)
    agent = _resolve_agent(call, agent_id)
    if agent is None:
        raise not_found_error("agent")
    tools = agent.descriptors if isinstance(agent, ResolvedAgent) else ()
    return JsonResponse(capabilities(agent.spec, tools))


def _resolve_agent(call: ApiCall, agent_id: str) -> ResolvedExecution | None:
    """An agent that the client may use; `None` if there is none."""
    mine, agents = call.principal.agents, call.runtime.engine.registry.snapshot()
    may_use = mine is None or agent_id in mine
    return (
        agents.resolve_execution(agent_id) if may_use and agent_id in agents.agent_ids() else None
    )


def _agent_id(call: ApiCall) -> str:
    """The agent that the path names, or else the only one."""
    named = call.request.path_params.get("agent")
    agents = call.runtime.engine.registry.snapshot().agent_ids()
    if named is None and len(agents) == 1:
        return agents[0]
    if named is None:
        raise HttpRefusal(400, "agent_not_named", "name the agent: /v1/ag-ui/agents/<agent>")
    return str(named)


def _frames(chunks: Iterable[Json]) -> Response:
    """A response with these chunks alone."""
    body = b"".join(data_frame(chunk) for chunk in chunks)
    return Response(body, headers={k.decode(): v.decode() for k, v in HEADERS})


def _routes(base: str, name: str) -> tuple[Route, ...]:
    return (
        Route(
            method="POST",
            path=base,
            handle=run,
            name=f"run_{name}",
            summary="Run an agent (AG-UI)",
            protocol=DOCS,
            needs=(KeyRole.INVOKE,),
            body=bytes,
            body_limit=CHAT_LIMIT,
            answers={},
            streams=True,
            submits=True,
            takes_tokens=True,
        ),
        Route(
            method="GET",
            path=f"{base}/capabilities",
            handle=describe,
            name=f"get_{name}_capabilities",
            summary="What an agent can do (AG-UI)",
            protocol=DOCS,
            needs=(KeyRole.INVOKE, KeyRole.READ),
            answers={200: dict[str, Json]},
        ),
        Route(
            method="GET",
            path=f"{base}/threads/{{thread}}/connect",
            handle=connect,
            name=f"connect_{name}",
            summary="Watch a thread (AG-UI)",
            protocol=DOCS,
            needs=(KeyRole.INVOKE, KeyRole.READ),
            answers={},
            streams=True,
            takes_tokens=True,
        ),
    )


ROUTES = (
    *_routes("/v1/ag-ui", "ag_ui"),
    *_routes("/v1/ag-ui/agents/{agent}", "ag_ui_agent"),
)
