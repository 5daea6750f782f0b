"""`/v1/runs/{run}`: send messages to a run, cancel it, answer its questions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.types import ASGIApp

from awaken.clock import SYSTEM_CLOCK
from awaken.codec import to_json
from awaken.core.run import CancelOutcome, CancelReceipt
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import Ticket, TicketStatus, ToolCallResume
from awaken.errors import ArgumentsRefused, InvalidResume
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.client_ids import ClientIds
from awaken.server.errors import HttpRefusal, not_found_error
from awaken.server.lookup import DECIDERS, READERS, find_run
from awaken.server.request_types import DecisionGiven, MessagesGiven, RequestPart, Seconds
from awaken.server.response_types import ResponsePart, TicketView
from awaken.server.route import KeyRole, Route
from awaken.server.routes.runs import idempotency_key
from awaken.server.submit import check_may_answer, parse_messages

CANCEL_DEADLINE = 10.0
DecisionsGiven = Annotated[tuple[DecisionGiven, ...], Meta(min_length=1, max_length=1_000)]


class CancelAsked(RequestPart, frozen=True, kw_only=True):
    """`deadline` is how many seconds the receipt may take."""

    deadline: Seconds = CANCEL_DEADLINE


class ReceiptItem(ResponsePart, frozen=True, kw_only=True):
    """A run, task or call that the cancel reached: it was stopped, had finished, or it is unknown
    whether it still runs."""

    kind: str
    id: str
    name: str
    run_id: str
    outcome: CancelOutcome
    note: str | None


class Receipt(ResponsePart, frozen=True, kw_only=True):
    """What a cancel reached. It is not `accepted` if no run was open."""

    accepted: bool
    complete: bool
    items: tuple[ReceiptItem, ...]

    @classmethod
    def of(cls, receipt: CancelReceipt, ids: ClientIds) -> Receipt:
        return cls(
            accepted=receipt.accepted,
            complete=receipt.complete,
            items=tuple(
                ReceiptItem(
                    kind=item.kind,
                    id=ids.outside(item.id),
                    name=item.name,
                    run_id=ids.outside(item.run_id),
                    outcome=item.outcome,
                    note=item.note,
                )
                for item in receipt.items
            ),
        )


class MessagesSent(ResponsePart, frozen=True, kw_only=True):
    """How many messages a run was given."""

    sent: int


class Decided(ResponsePart, frozen=True, kw_only=True):
    """The keys of the tickets that were answered, and whether the run goes on now; otherwise it
    does when a node takes it up."""

    decided: tuple[str, ...]
    goes_on: bool


async def send(call: ApiCall) -> ASGIApp:
    given: MessagesGiven = call.body
    run, _ = await find_run(call, call.path("run"), READERS)
    messages = parse_messages(call, given.messages)
    if not await call.runtime.send(run.run_id, messages, principal=call.principal):
        raise HttpRefusal(
            409,
            "not_running",
            "no node works on the run",
            hint="submit the messages to the thread with mode steer",
        )
    return JsonResponse(MessagesSent(sent=len(messages)), status_code=202)


async def cancel(call: ApiCall) -> ASGIApp:
    asked: CancelAsked = call.query
    # A key that may only invoke cancels its own runs.
    run, _ = await find_run(call, call.path("run"), (KeyRole.DECIDE,))
    receipt = await call.runtime.cancel(
        run.run_id, deadline=asked.deadline, principal=call.principal
    )
    shown = Receipt.of(receipt, call.ids)
    return JsonResponse(shown, status_code=200 if shown.complete else 202)


async def decide(call: ApiCall) -> ASGIApp:
    given: tuple[DecisionGiven, ...] = call.body
    run, _ = await find_run(call, call.path("run"), DECIDERS)
    asked = {ticket.key: ticket for ticket in await _tickets(call, run.run_id)}
    if len({one.ticket for one in given}) < len(given):
        raise HttpRefusal(400, "bad_request", "a ticket is answered twice")
    for one in given:
        if one.ticket not in asked:
            raise not_found_error("ticket")
        check_may_answer(call, asked[one.ticket])
    id = idempotency_key(call) or ""
    try:
        goes_on = await call.runtime.decide(
            run.run_id,
            {one.ticket: _answer(one, id) for one in given},
            principal=call.principal,
        )
    except InvalidResume as error:
        raise await _refusal(call, run.run_id, given, error) from None
    return JsonResponse(Decided(decided=tuple(one.ticket for one in given), goes_on=goes_on))


def _answer(given: DecisionGiven, id: str) -> ToolCallResume:
    match given.action:
        case "approve":
            return ToolCallResume.approve(
                given.result, reason=given.reason, digest=given.digest, id=id
            )
        case "edit":
            return ToolCallResume.edit(
                given.result, reason=given.reason, digest=given.digest, id=id
            )
        case "deny":
            return ToolCallResume.deny(given.reason, digest=given.digest, id=id)


async def _refusal(
    call: ApiCall, run_id: str, given: tuple[DecisionGiven, ...], error: InvalidResume
) -> HttpRefusal:
    """The refusal of an answer, with the ticket as it is now."""
    now = {ticket.key: ticket for ticket in await _tickets(call, run_id)}
    for one in given:
        ticket = now.get(one.ticket)
        code = _refusal_code(ticket, one) if ticket is not None else None
        if isinstance(error, ArgumentsRefused) and one.ticket == error.ticket:
            code = "invalid_arguments"
        if ticket is not None and code is not None:
            shown = to_json(TicketView.of_ticket(ticket, call.ids))
            return HttpRefusal(409, code, str(error), ticket=shown)
    return HttpRefusal(409, "decision_refused", str(error))


def _refusal_code(ticket: Ticket, given: DecisionGiven) -> str | None:
    """The reason why a ticket does not accept an answer, as an error code; `None` if it does."""
    if ticket.status is not TicketStatus.OPEN:
        return f"ticket_{ticket.status.value}"
    if ticket.expires_at is not None and ticket.expires_at < SYSTEM_CLOCK.now_ms():
        return "ticket_expired"
    return "question_changed" if given.digest != ticket.digest else None


async def _tickets(call: ApiCall, run_id: str) -> tuple[Ticket, ...]:
    return (await call.runtime.list_tickets(TicketQuery(run_id=run_id, limit=1_000))).items


_ONE = "/v1/runs/{run}"
ROUTES = (
    Route(
        method="POST",
        path=_ONE + "/messages",
        handle=send,
        name="send_messages",
        summary="Send messages to a run that works",
        needs=(KeyRole.INVOKE,),
        body=MessagesGiven,
        answers={202: MessagesSent},
        errors=(409,),
        takes_tokens=True,
    ),
    Route(
        method="POST",
        path=_ONE + "/cancel",
        handle=cancel,
        name="cancel_run",
        summary="Cancel a run and everything it has started",
        needs=(KeyRole.INVOKE, KeyRole.DECIDE),
        query=CancelAsked,
        answers={200: Receipt, 202: Receipt},
        takes_tokens=True,
    ),
    Route(
        method="POST",
        path=_ONE + "/decisions",
        handle=decide,
        name="answer_tickets",
        summary="Answer tickets of a run, all or none",
        needs=(KeyRole.INVOKE, KeyRole.DECIDE),
        body=DecisionsGiven,
        answers={200: Decided},
        errors=(409,),
        takes_tokens=True,
    ),
)
