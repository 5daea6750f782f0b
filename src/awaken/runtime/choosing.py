"""Choosing the run that a request leads to, and the agent that runs it."""

from __future__ import annotations

from typing import NamedTuple

from awaken.clock import Clock
from awaken.contract.commands import ThreadCommand
from awaken.contract.registry import ExecutionResolver
from awaken.contract.store import Store
from awaken.contract.threads import ThreadContext
from awaken.domain.identity import RunMode
from awaken.errors import DecisionRefused, InvalidResume
from awaken.ids import Ids
from awaken.plugin.agent import ResolvedBackendAgent, ResolvedExecution
from awaken.runtime.delegates import Delegates
from awaken.runtime.prepare import RunChoice, Sent, as_asked_before, choose_run, take_commands
from awaken.runtime.reading import agent_before, can_hand_over, resolve_and_read, with_rewind
from awaken.runtime.request import CancelFirst, RunRequest


class Chosen(NamedTuple):
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
    request = await with_rewind(store, request)
    agent, context = await resolve_and_read(store, request, resolver)
    if refused is not None and not _knows_its_questions(agent, request):
        raise InvalidResume(refused) from refused
    choice = await choose_run(request, context, store, ids)
    if request.decisions and not request.messages and not choice.is_continuation:
        raise InvalidResume("these answers were given before, and their run is over")
    sent = take_commands(context.commands, choice)
    if request.run_mode is RunMode.INTERNAL_WAKE and not (choice.previous or sent.messages):
        raise InvalidResume("another run has read the messages for which the thread was woken")
    if sent.cancelled and request.messages and request.continue_run_id is None:
        raise CancelFirst(choice.run_id)
    before = agent_before(resolver, choice, agent)
    if request.messages and not request.continue_run_id and not can_hand_over(before, agent):
        now = clock.now_ms()
        await store.send(ThreadCommand.cancel(request.thread_id, choice.run_id, at_ms=now))
        raise CancelFirst(choice.run_id)
    return Chosen(as_asked_before(request, choice.previous), before, context, choice, sent)


def _knows_its_questions(agent: ResolvedExecution, request: RunRequest) -> bool:
    """Whether the agent's backend, which keeps its questions, has to judge the answers."""
    return isinstance(agent, ResolvedBackendAgent) and request.agent_id in (None, agent.spec.id)
