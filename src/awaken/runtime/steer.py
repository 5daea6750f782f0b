"""Steering runs wherever they are: live here, live in another process, or waiting in the store."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence

import msgspec

from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.contract.events import EventSink
from awaken.contract.llm import InferenceRequest, LlmStreamEvent
from awaken.contract.registry import ExecutionResolver
from awaken.contract.store import Store
from awaken.contract.threads import ThreadQuery, TicketQuery
from awaken.domain.identity import RequestOrigin
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message
from awaken.domain.run import RunRecord
from awaken.domain.suspension import Decision, ToolCallResume
from awaken.domain.thread import Thread
from awaken.domain.ticket import TicketStatus
from awaken.errors import (
    ConfigError,
    DecisionRefused,
    InvalidResume,
    NotFound,
    PhaseError,
    ResolveFailed,
    StoreError,
    ThreadAlreadyRunning,
    ThreadOwned,
)
from awaken.loop import AgentRunResult
from awaken.loop.resume import EXPIRY_GRACE_MS
from awaken.plugin.agent import ResolvedAgent
from awaken.registry import RegistryHandle
from awaken.runtime.delegates import parent_of
from awaken.runtime.request import RunRequest
from awaken.runtime.runtime import AgentRuntime
from awaken.runtime.task_records import KeptTask, is_task

_MANY = 1000
log = logging.getLogger("awaken.runtime")


class Whereabouts(msgspec.Struct, frozen=True, gc=False):
    """A thread, the run that is open in it, and whether somebody carries it on."""

    thread_id: str
    run: RunRecord | None
    owner: str | None


async def find(runtime: AgentRuntime, id: str) -> Whereabouts | None:
    """Where the run of a run or thread id is; nothing if nobody knows the id, or if it names a
    thread and the run of another one."""
    context = await runtime.store.load_context(id, tail=0)
    record = await runtime.store.load_run(id)
    if context is not None and record is not None and record.thread_id != id:
        return None
    if context is None:
        if record is None:
            return None
        context = await runtime.store.load_context(record.thread_id, tail=0)
        if context is None:
            return None
        if context.open_run is None or context.open_run.run_id != id:
            return Whereabouts(record.thread_id, record, None)
    run = context.open_run
    return Whereabouts(context.thread.id, run, context.thread.owner)


def _is_open(run: RunRecord | None) -> bool:
    return run is not None and run.status is not RunStatus.DONE


async def cancel(runtime: AgentRuntime, id: str) -> bool:
    """Cancel a run by its run or thread id, also one nobody carries on, and all it has started;
    false if none is open.

    The wish is kept first: a run whose process dies on the way ends as cancelled all the same.
    """
    live = runtime.active.find(id)
    place = await find(runtime, live.thread_id if live is not None else id)
    accepted = await _cancel_one(runtime, id)
    if accepted and place is not None:
        for thread in await descendants(runtime.store, place.thread_id):
            if not runtime.cancel_by_thread(thread.id) and thread.open_run_id is not None:
                await _cancel_one(runtime, thread.id)
        await _take_question_back(runtime, place.run)
    return accepted


async def _take_question_back(runtime: AgentRuntime, run: RunRecord | None) -> None:
    """Let whoever waits for a delegate go on, once that is cancelled: nobody has to be asked."""
    parent = await parent_of(runtime.store, run)
    if run is None or parent is None:
        return
    query = TicketQuery(run_id=parent.run_id, status=TicketStatus.OPEN, limit=_MANY)
    for ticket in await runtime.store.list_tickets(query):
        if ticket.asker is None or ticket.asker.run_id != run.run_id:
            continue
        no = ToolCallResume.deny(f"agent '{run.agent_id}' was cancelled")
        try:
            await decide(runtime, parent.run_id, [(ticket.key, no)])
        except InvalidResume as error:
            log.info("somebody has answered for run %s: %s", run.run_id, error)


async def descendants(store: Store, thread_id: str) -> list[Thread]:
    """The threads of the runs a thread's runs have started, and those beneath them."""
    found: list[Thread] = []
    above = [thread_id]
    while above:
        query = ThreadQuery(parent_thread_id=above.pop(), limit=_MANY)
        while True:
            page = await store.list_threads(query)
            found.extend(page)
            above.extend(thread.id for thread in page)
            if page.cursor is None:
                break
            query = msgspec.structs.replace(query, cursor=page.cursor)
    return found


async def _cancel_one(runtime: AgentRuntime, id: str) -> bool:
    live = runtime.active.find(id)
    place = await find(runtime, live.thread_id if live is not None else id)
    if place is None or place.run is None or not _is_open(place.run):
        # A run that has not committed anything yet is known here alone.
        return runtime.cancel(id)
    now = runtime.clock.now_ms()
    await runtime.store.send(ThreadCommand.cancel(place.thread_id, place.run.run_id, at_ms=now))
    if not runtime.cancel_by_run_id(place.run.run_id):
        await _close(runtime, place.run)
    return True


async def _close(runtime: AgentRuntime, run: RunRecord) -> None:
    """End a run that nobody carries on; the cancel that waits for it does the rest."""
    try:
        if is_task(run):
            return await runtime.tasks.end_interrupted(run, cancelled=True)
        if run.agent_id in runtime.registry.snapshot().agent_ids():
            try:
                await go_on(runtime, run)
                return
            except (PhaseError, ResolveFailed) as error:
                log.warning("run %s is ended without its agent: %s", run.run_id, error)
        await go_on(_stand_in(runtime, run.agent_id), run, agent_id=run.agent_id)
    except (ThreadAlreadyRunning, ThreadOwned):
        return  # its owner is alive, and has the cancel
    except InvalidResume as over:
        log.info("run %s was not to be ended: %s", run.run_id, over)


class _Nobody:
    """The model of an agent this process does not have: good for ending its runs."""

    name = "nobody"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        raise ConfigError("an agent this process does not have cannot be asked")
        yield


class _StandIn:
    """Knows one agent, by name only."""

    def __init__(self, agent_id: str) -> None:
        self._agent = ResolvedAgent.new(agent_id, _Nobody.name, "", _Nobody())

    def agent_ids(self) -> list[str]:
        return [self._agent.spec.id]

    def resolve(self, agent_id: str) -> ResolvedAgent:
        return self._agent

    resolve_execution = resolve


def _stand_in(runtime: AgentRuntime, agent_id: str) -> AgentRuntime:
    registry: RegistryHandle[ExecutionResolver] = RegistryHandle(_StandIn(agent_id))
    return AgentRuntime(registry, runtime.store, clock=runtime.clock, ids=runtime.ids)


async def send(runtime: AgentRuntime, id: str, messages: Sequence[Message]) -> bool:
    """Write to a run that somebody carries on; the model reads it at its next step.

    What comes too late for this run is read by the next one of its thread. False if nobody runs.
    """
    if not messages:
        return False
    live = runtime.active.find(id)
    if live is not None and live.inbox is not None:
        return await runtime.send_messages(id, messages)
    place = await find(runtime, id)
    if place is None or place.owner is None or not _is_open(place.run):
        return False
    await runtime.write_to(place.thread_id, messages)
    return True


async def decide(runtime: AgentRuntime, id: str, decisions: Sequence[Decision]) -> Whereabouts:
    """Answer tickets of a run, all or none; whoever carries the run on is told.

    Raises:
        InvalidResume: no such run, or an answer fits no open ticket. Nothing was changed.
    """
    live = runtime.active.find(id)
    thread_id = live.thread_id if live is not None else id
    place = await find(runtime, thread_id)
    if place is None:
        raise InvalidResume(f"no run or thread has the id '{id}', or more than one")
    asks_through = await parent_of(runtime.store, place.run)
    if asks_through is not None and place.run is not None and not is_task(asks_through):
        above = await _as_its_parent_asks(runtime, place.run, asks_through, decisions)
        return await decide(runtime, asks_through.run_id, above)
    try:
        await runtime.store.decide(place.thread_id, decisions, at_ms=runtime.clock.now_ms())
    except (DecisionRefused, NotFound) as error:
        raise InvalidResume(error) from error
    await runtime.deliver(place.thread_id)
    # Looked up again: an owner that is there now sees the answers before it gives the thread up.
    now = await find(runtime, thread_id) or place
    if asks_through is None or now.owner is not None:
        return now
    # The task it works in goes on with it.
    task = await find(runtime, asks_through.run_id)
    return msgspec.structs.replace(now, owner=task.owner) if task is not None else now


async def _as_its_parent_asks(
    runtime: AgentRuntime, run: RunRecord, parent: RunRecord, decisions: Sequence[Decision]
) -> list[Decision]:
    """Answers to a delegate's tickets, as answers to those its parent has put for it.

    Raises:
        InvalidResume: there are none such.
    """
    asked = TicketQuery(run_id=run.run_id, status=TicketStatus.OPEN, limit=_MANY)
    mine = await runtime.store.list_tickets(asked)
    theirs = await runtime.store.list_tickets(msgspec.structs.replace(asked, run_id=parent.run_id))
    above: list[Decision] = []
    for target, decision in decisions:
        ticket = next((ticket for ticket in mine if ticket.answers_to(target)), None)
        passed_on = next(
            (t for t in theirs if ticket and t.asker and t.asker.ticket == ticket.key), None
        )
        if ticket is None or passed_on is None:
            raise InvalidResume(
                f"'{target}' is no open question of run '{run.run_id}' that has reached run "
                f"'{parent.run_id}', which it works for"
            )
        if decision.digest not in (None, ticket.digest):
            raise InvalidResume(f"the answer to '{target}' was given to another question")
        digest = passed_on.digest if decision.digest is not None else None
        above.append((passed_on.key, msgspec.structs.replace(decision, digest=digest)))
    return above


async def interrupted(runtime: AgentRuntime) -> list[RunRecord]:
    """Runs, and tasks, that nobody carries on, of agents this runtime has.

    A delegate is carried on by the run it works for, as long as that is open.
    """
    known = set(runtime.registry.snapshot().agent_ids())
    # An answer that was given in time may still be on its way.
    now = runtime.clock.now_ms() - EXPIRY_GRACE_MS
    return [
        record
        for record in await runtime.store.list_interrupted(now_ms=now)
        if runtime.active.find_by_thread(record.thread_id) is None
        and _agent_of(record) in known
        and not await _is_left_to_parent(runtime, record)
        and not await _is_only_told(runtime, record, now)
    ]


def _agent_of(record: RunRecord) -> str | None:
    """The agent whose run, or task, it is."""
    return KeptTask.of(record).task.parent_context.agent_id if is_task(record) else record.agent_id


async def _is_left_to_parent(runtime: AgentRuntime, run: RunRecord) -> bool:
    if await parent_of(runtime.store, run) is None:
        return False
    commands = await runtime.store.load_commands(run.thread_id)
    return not any(command.kind is CommandKind.CANCEL for command in commands)


async def _is_only_told(runtime: AgentRuntime, run: RunRecord, now_ms: int) -> bool:
    """Whether a run that waits for answers has got nothing but messages: it reads them later."""
    tickets = run.waiting.tickets if run.waiting is not None else ()
    if not tickets or any(t.expires_at is not None and t.expires_at <= now_ms for t in tickets):
        return False
    commands = await runtime.store.load_commands(run.thread_id)
    return all(command.kind is CommandKind.MESSAGES for command in commands)


async def take_up_task(runtime: AgentRuntime, record: RunRecord) -> None:
    """Carry on a task that nobody carries on, or end it."""
    try:
        await runtime.tasks.take_up(record, runtime.registry.snapshot())
    except (ThreadAlreadyRunning, ThreadOwned):
        return  # another process was quicker
    except StoreError:
        raise
    except Exception:
        # One record nobody can read must not keep the others from being taken up.
        log.exception("task %s could not be taken up", record.run_id)


async def go_on(
    runtime: AgentRuntime,
    run: RunRecord,
    sink: EventSink | None = None,
    *,
    agent_id: str | None = None,
) -> AgentRunResult:
    """Carry a run on from its last commit, with the agent that spoke last unless one is named.

    Raises:
        ThreadAlreadyRunning: somebody else does so by now.
        AgentLoopError: it broke off.
    """
    asked = run.request
    if asked is not None and asked.parent_tool_call_id is not None:
        # Whoever it works for is gone or has ended: nobody waits for its answer.
        now = runtime.clock.now_ms()
        await runtime.store.send(ThreadCommand.cancel(run.thread_id, run.run_id, at_ms=now))
    request = RunRequest(
        thread_id=run.thread_id,
        continue_run_id=run.run_id,
        agent_id=agent_id,
        wait_for_decisions=False,
        left_on_close=True,
        parent_run_id=run.parent_run_id,
        parent_thread_id=asked.parent_thread_id if asked is not None else None,
        dispatch_id=run.dispatch_id,
        session_id=run.session_id,
        transport_request_id=run.transport_request_id,
        origin=asked.origin if asked is not None else RequestOrigin.USER,
    )
    return await runtime.run(request, sink)
