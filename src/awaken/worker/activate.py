"""Choosing the run that a request leads to, and the agent that runs it."""

from __future__ import annotations

import msgspec

from awaken.clock import Clock
from awaken.core.identity import RunMode
from awaken.core.lifecycle import RunStatus, Suspended
from awaken.core.registry import ExecutionResolver
from awaken.core.result import AgentRunResult
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadContext
from awaken.errors import DecisionRefused, InvalidResume
from awaken.ids import Ids
from awaken.plugin.resolved_agent import ResolvedBackendAgent, ResolvedExecution
from awaken.worker.delegates import Delegates
from awaken.worker.prepare import (
    NOTHING_SENT,
    RunChoice,
    Sent,
    as_asked_before,
    choose_run,
    take_commands,
)
from awaken.worker.read_thread import agent_before, can_hand_over, resolve_and_read, with_rewind
from awaken.worker.request import CancelFirst, RunRequest


class Chosen(msgspec.Struct, frozen=True):
    """A request as its run takes it, the run's agent and thread, and the commands it was sent."""

    request: RunRequest
    agent: ResolvedExecution
    context: ThreadContext
    choice: RunChoice
    sent: Sent


async def choose(
    store: Store,
    delegates: Delegates,
    resolver: ExecutionResolver,
    clock: Clock,
    ids: Ids,
    request: RunRequest,
) -> Chosen:
    """Store the request's decisions, read its thread, resolve its agent, and choose its run.

    Raises:
        CancelFirst: the thread's open run has to end before the request can start its own.
        InvalidResume: the run cannot be continued, or a decision answers no open question.
    """
    refused: DecisionRefused | None = None
    if request.decisions:
        await delegates.check_answers(request.thread_id)
        try:
            await store.decide(request.thread_id, request.decisions, at_ms=clock.now_ms())
        except DecisionRefused as error:
            refused = error
    if request.rewind_to is not None:
        request = await with_rewind(store, request)
    agent, context = await resolve_and_read(store, request, resolver)
    if refused is not None and not _knows_its_questions(agent, request):
        raise InvalidResume(refused) from refused
    if context.is_new and request.names_no_run:
        choice, sent = RunChoice(run_id=ids.new()), NOTHING_SENT
    else:
        choice = await choose_run(request, context, store, ids)
        sent = take_commands(context.commands, choice)
    if request.decisions and not request.messages and not choice.is_continuation:
        raise InvalidResume("these answers were given before, and their run is over")
    if request.run_mode is RunMode.INTERNAL_WAKE and not (choice.previous or sent.messages):
        raise InvalidResume("another run has read the messages for which the thread was woken")
    if sent.cancelled and request.messages and request.continue_run_id is None:
        raise CancelFirst(choice.run_id)
    if choice.previous is None:
        return Chosen(request, agent, context, choice, sent)
    before = agent_before(resolver, choice.previous, agent)
    if request.messages and not request.continue_run_id and not can_hand_over(before, agent):
        now = clock.now_ms()
        await store.send(ThreadCommand.cancel(request.thread_id, choice.run_id, at_ms=now))
        raise CancelFirst(choice.run_id)
    return Chosen(as_asked_before(request, choice.previous), before, context, choice, sent)


def _knows_its_questions(agent: ResolvedExecution, request: RunRequest) -> bool:
    """Whether the agent's backend, which keeps its questions, has to judge the answers."""
    return isinstance(agent, ResolvedBackendAgent) and request.agent_id in (None, agent.spec.id)


async def has_ended(store: Store, failure: BaseException, request: RunRequest) -> bool:
    """Whether `failure` only says that the run which the request was to end is already done."""
    if not isinstance(failure, InvalidResume) or request.continue_run_id is None:
        return False
    run = await store.load_run(request.continue_run_id)
    return run is None or run.status is RunStatus.DONE


async def has_command(store: Store, thread_id: str, paused: AgentRunResult) -> bool:
    """Whether a run that has just paused has a command waiting and its thread has no owner.

    Messages do not count for a run that waits for a decision: they cannot resume it.
    """
    thread = await store.load_thread(thread_id)
    commands = await store.load_commands(thread_id)
    decides = isinstance(paused.termination, Suspended)
    return (
        thread is not None
        and thread.owner is None
        and any(
            command.run_id in (None, paused.run_id)
            for command in commands
            if not decides or command.kind is not CommandKind.MESSAGES
        )
    )
