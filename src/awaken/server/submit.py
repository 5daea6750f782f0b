"""Submits the runs that clients ask for: `carry_out` alone calls `Runtime.submit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from awaken.core.budget import Budget
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.message import Role as MessageRole
from awaken.core.store.commands import SubmitMode, Submitted
from awaken.core.store.threads import RunQuery, TicketQuery
from awaken.core.suspension import Ticket, TicketStatus, ToolCallResumeMode
from awaken.core.thread import Thread
from awaken.errors import AwakenError
from awaken.server.call import ApiCall
from awaken.server.errors import NOT_FOUND, HttpRefusal, not_found_error
from awaken.server.limits import Limits, limit_budget, limit_error
from awaken.server.lookup import READERS, may_see
from awaken.server.metrics import Metrics
from awaken.server.protocols.base import MAX_COMPARED, Intake, KnownThread
from awaken.server.request_types import GivenMessages, messages_of
from awaken.server.route import KeyRole

_MAX_RESULTS = 1_000


async def load_known(call: ApiCall, thread_id: str) -> KnownThread:
    """The messages and the open tickets that the store has of a thread, by its id inside.

    Raises:
        HttpRefusal: the client may not see the thread.
    """
    thread = await load_visible_thread(call, thread_id)
    if thread is None:
        return KnownThread()
    after = max(0, thread.message_count - MAX_COMPARED)
    messages = await call.runtime.messages(thread_id, after=after)
    tickets = await open_tickets(call, thread_id)
    return KnownThread(messages=tuple(messages), tickets=tickets)


async def load_visible_thread(
    call: ApiCall, thread_id: str, see_all: tuple[KeyRole, ...] = READERS
) -> Thread | None:
    """The thread with this id inside, or `None` if there is none yet. Callers without one of the
    roles `see_all` see only threads that they have created.

    Raises:
        HttpRefusal: the client may not see the thread, or has a token for another one.
    """
    thread = await call.runtime.store.load_thread(thread_id)
    if thread is None:
        if call.only_thread not in (None, thread_id):
            raise not_found_error("thread")
        return None
    if not await may_see(call, thread, see_all):
        raise not_found_error("thread")
    return thread


async def open_tickets(call: ApiCall, thread_id: str) -> tuple[Ticket, ...]:
    """The open tickets of a thread, by its id inside."""
    query = TicketQuery(thread_id=thread_id, status=TicketStatus.OPEN, limit=_MAX_RESULTS)
    return (await call.runtime.list_tickets(query)).items


class Extras(NamedTuple):
    """Options of a submission that `/v1` has, and other protocols do not."""

    not_before_ms: int | None = None
    budget: Budget | None = None
    user: str | None = None
    labels: Mapping[str, str] | None = None


NO_EXTRAS = Extras()


async def carry_out(call: ApiCall, intake: Intake, extras: Extras = NO_EXTRAS) -> Submitted:
    """Submit the run that a request asks for. Returns when the submission is stored.

    Raises:
        HttpRefusal: the client may not see the thread, use the agent or answer the question, or
            its scope has too many open runs.
    """
    metrics: Metrics = call.request.app.state.observer.metrics
    try:
        submitted = await _carry_out(call, intake, extras)
    except (AwakenError, HttpRefusal):
        metrics.count_submission(intake.mode, "refused")
        raise
    metrics.count_submission(intake.mode, "taken" if submitted.is_new else "known")
    call.request.scope["submitted_run"] = submitted.run_id  # for the log and the audit
    return submitted


async def _carry_out(call: ApiCall, intake: Intake, extras: Extras) -> Submitted:
    if intake.thread_id is not None:
        await load_visible_thread(call, intake.thread_id)
    if intake.settings is not None:
        check_may_configure(call, "the model and its parameters are chosen")
    for key, _ in intake.decisions:
        await _check_answer(call, intake.thread_id, key)
    await _check_interrupt(call, intake)
    await _check_open_runs(call)
    return await call.runtime.submit(
        _agent(call, intake.agent_id),
        intake.messages,
        thread=intake.thread_id,
        answers=dict(intake.decisions) or None,
        settings=intake.settings,
        budget=limit_budget(extras.budget, call.terms.budget),
        frontend_tools=intake.frontend_tools,
        mode=intake.mode,
        key=intake.key,
        not_before_ms=extras.not_before_ms,
        user=extras.user,
        labels=extras.labels,
        principal=call.principal,
        rewind_to=intake.rewind_to,
        state=intake.state,
        forwarded_props=intake.forwarded_props,
        adapter=intake.adapter,
        request_id=intake.request_id,
    )


def _agent(call: ApiCall, agent_id: str | None) -> str | None:
    """The agent that the request names, if the key may use it."""
    mine = call.principal.agents
    if mine is None:
        return agent_id
    if agent_id is None and len(mine) != 1:
        raise HttpRefusal(400, "bad_request", "name the agent: this key may use several")
    agent_id = agent_id or mine[0]
    if agent_id not in mine:
        raise HttpRefusal(404, "agent_not_found", NOT_FOUND.format("agent"))
    return agent_id


async def _check_interrupt(call: ApiCall, intake: Intake) -> None:
    """
    Raises:
        HttpRefusal: the request would end another principal's open run, or remove what it has
            written, and the caller may not cancel it.
    """
    ends_runs = intake.mode is SubmitMode.INTERRUPT or intake.rewind_to is not None
    if intake.thread_id is None or not ends_runs:
        return
    thread = await call.runtime.store.load_thread(intake.thread_id)
    if thread is None or await may_see(call, thread, (KeyRole.DECIDE,)):
        return
    for status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.CREATED):
        query = RunQuery(thread_id=thread.id, status=status, limit=_MAX_RESULTS)
        for run in await call.runtime.list_runs(query):
            if run.request is None or run.request.sender_id != call.principal.id:
                raise HttpRefusal(
                    403, "missing_role", "to end a run of others needs the role decide"
                )


async def _check_answer(call: ApiCall, thread_id: str | None, key: str) -> None:
    """
    Raises:
        HttpRefusal: there is no ticket with this key in the thread, or it is open and the caller
            may not answer it.
    """
    found = await call.runtime.list_tickets(TicketQuery(thread_id=thread_id or "", key=key))
    if not found.items:
        raise not_found_error("ticket")
    for ticket in found:
        if ticket.status is TicketStatus.OPEN:
            check_may_answer(call, ticket)


def check_may_configure(call: ApiCall, what: str) -> None:
    """
    Raises:
        HttpRefusal: the caller may not say how a run asks its model. No stream token may.
    """
    if call.only_thread is not None or not call.has(KeyRole.CONFIGURE):
        raise HttpRefusal(403, "missing_role", f"{what} with the role configure")


def parse_messages(call: ApiCall, given: GivenMessages) -> tuple[Message, ...]:
    """The messages of a request, each with an id.

    Raises:
        HttpRefusal: one of them is not a user's, and the caller may not write it.
    """
    messages = messages_of(given)
    for message in messages:
        if message.role is not MessageRole.USER:
            check_may_configure(call, f"messages of the role {message.role.value!r} are written")
    return messages


def check_may_answer(call: ApiCall, ticket: Ticket) -> None:
    """Check that the caller may answer a ticket. A question to the user of a thread, or a call that
    the client carries out itself, is answered by callers that may submit. An approval needs the
    role `decide`.

    Raises:
        HttpRefusal: the caller does not have it.
    """
    is_approval = ticket.answer_mode is not ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
    if is_approval and not call.has(KeyRole.DECIDE):
        raise HttpRefusal(403, "missing_role", "an approval needs the role decide")


async def _check_open_runs(call: ApiCall) -> None:
    """
    Raises:
        HttpRefusal: the scope has as many open runs as it may have.
    """
    limits: Limits = call.request.app.state.limits
    if (limit := limits.open_runs) is None:
        return
    count = 0
    for status in (RunStatus.RUNNING, RunStatus.CREATED):
        query = RunQuery(scope=call.principal.scope, status=status, limit=max(1, limit))
        count += len(await call.runtime.list_runs(query))
    if count >= limit:
        raise limit_error("too_many_runs", f"{count} runs are open: wait for one to end")
