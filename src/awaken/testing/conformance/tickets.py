"""Checks of tickets: opened by a commit, answered once, closed with their run."""

from __future__ import annotations

from typing import Any

from awaken.core.store.commands import CommandKind
from awaken.core.store.store import Store
from awaken.core.suspension import (
    Decision,
    Ticket,
    TicketStatus,
    ToolCallResume,
    ToolCallResumeMode,
)
from awaken.errors import DecisionRefused
from awaken.testing.conformance.helpers import (
    DONE,
    RUNNING,
    WAITING,
    StoreCheck,
    Suite,
    all_tickets,
    expect_error_without_change,
    record,
    ticket,
    write,
)

check = Suite[StoreCheck]()

YES = ToolCallResume.approve
NO = ToolCallResume.deny
OPEN, ANSWERED, CLOSED = TicketStatus.OPEN, TicketStatus.ANSWERED, TicketStatus.CLOSED


async def _ask(store: Store, *tickets: Ticket) -> None:
    """Write a run that waits for answers to its tickets."""
    await write(store, run=record("r", status=WAITING), tickets=tickets or (ticket(),))


async def _refuses(store: Store, *decisions: Decision, at_ms: int = 200) -> DecisionRefused:
    return await expect_error_without_change(
        store, DecisionRefused, store.decide("t", decisions, at_ms=at_ms)
    )


async def _statuses(store: Store) -> dict[str, TicketStatus]:
    return {found.key: found.status for found in await all_tickets(store)}


# -- asking -----------------------------------------------------------------------------------


@check
async def a_ticket_is_read_as_it_was_asked(store: Store) -> None:
    whole = ticket(
        arguments={"path": "/tmp/ü", "deep": [1, None]},
        resume_mode=ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT,
        reason="tool_permission",
        message="may I?",
        expires_at=900,
    )
    await _ask(store, whole)

    assert await all_tickets(store) == [whole]


@check
async def a_commit_changes_a_ticket_by_its_key(store: Store) -> None:
    await _ask(store, ticket("m:0"), ticket("m:1", asked_at=101))
    await write(store, tickets=(ticket("m:0", status=CLOSED),))

    assert await _statuses(store) == {"m:0": CLOSED, "m:1": OPEN}
    await _refuses(store, ("m:0", YES()))


@check
async def a_key_names_one_ticket_in_each_thread(store: Store) -> None:
    """A fork continues from the same messages, and may ask the same questions."""
    await _ask(store)
    await write(store, "u", run=record("s", "u"), tickets=(ticket(thread_id="u", run_id="s"),))

    await store.decide("u", [("m:0", YES())], at_ms=200)

    found = {ticket.thread_id: ticket.status for ticket in await all_tickets(store)}
    assert found == {"t": OPEN, "u": ANSWERED}


# -- answering --------------------------------------------------------------------------------


@check
async def an_answer_is_kept_in_its_ticket_and_sent_in_a_command(store: Store) -> None:
    """Design §8: one transaction answers the ticket and inserts the command."""
    asked = ticket()
    await _ask(store, asked)
    answer = YES({"ok": True}, reason="fine", by="ann", id="d1")

    number = await store.decide("t", [("m:0", answer)], at_ms=200)

    (found,) = await all_tickets(store)
    (command,) = await store.load_commands("t")
    kept = found.decision
    assert kept is not None
    assert found.status is ANSWERED
    assert (kept.action, kept.result, kept.reason) == (answer.action, {"ok": True}, "fine")
    assert (kept.by, kept.decision_id) == ("ann", "d1")
    assert (kept.updated_at, kept.digest) == (200, asked.digest)
    assert (command.id, command.kind, command.at_ms) == (number, CommandKind.DECISIONS, 200)
    assert command.decisions == (("m:0", kept),)
    assert command.run_id in (None, "r")


@check
async def a_ticket_answers_to_each_of_its_names(store: Store) -> None:
    asked = [ticket(f"m:{number}", asked_at=number) for number in range(3)]
    await _ask(store, *asked)

    named = zip(["m:0", "ticket-m:1", "call-m:2"], asked, strict=True)
    given = [(target, NO(digest=ticket.digest)) for target, ticket in named]
    await store.decide("t", given, at_ms=200)

    (command,) = await store.load_commands("t")
    assert [target for target, _ in command.decisions] == ["m:0", "m:1", "m:2"]
    assert set((await _statuses(store)).values()) == {ANSWERED}


@check
async def edited_arguments_travel_with_the_answer(store: Store) -> None:
    await _ask(store)
    await store.decide("t", [("m:0", ToolCallResume.edit({"path": "/other"}))], at_ms=200)

    (command,) = await store.load_commands("t")
    ((_, resume),) = command.decisions
    assert resume.mode is ToolCallResumeMode.PASS_DECISION_TO_TOOL
    assert resume.result == {"path": "/other"}


@check
async def the_digest_of_what_was_asked_is_taken(store: Store) -> None:
    asked = ticket()
    await _ask(store, asked)

    assert await store.decide("t", [("m:0", YES(digest=asked.digest))], at_ms=200) is not None


@check
async def another_digest_is_refused(store: Store) -> None:
    """Design §4: a forged answer is refused and changes nothing."""
    await _ask(store)
    await _refuses(store, ("m:0", YES(digest="0123456789abcdef")))
    await _refuses(store, ("m:0", YES(digest="")))


@check
async def an_id_that_may_come_again_is_not_enough(store: Store) -> None:
    """Only the key always names one question; an answer by another id needs the digest."""
    await _ask(store)
    for target in ("ticket-m:0", "call-m:0"):
        await _refuses(store, (target, YES()))
        await _refuses(store, (target, YES(digest="")))
        await _refuses(store, (target, YES(digest="0123456789abcdef")))
    await _refuses(store, ("m:0", YES()), ("call-m:0", YES()))


@check
async def a_ticket_is_answered_once(store: Store) -> None:
    """01/D-15: a stale or repeated answer is refused and changes nothing."""
    await _ask(store)
    await store.decide("t", [("m:0", YES(id="d1"))], at_ms=200)

    await _refuses(store, ("m:0", NO(id="d2")))
    await _refuses(store, ("m:0", NO(id="d1")))
    await _refuses(store, ("m:0", YES()))


@check
async def the_same_decision_again_is_no_second_answer(store: Store) -> None:
    """01/D-15: recognised by its id and its content."""
    await _ask(store, ticket("m:0"), ticket("m:1", asked_at=101))
    await store.decide("t", [("m:0", YES(1, id="d1"))], at_ms=200)
    kept = await all_tickets(store)

    assert await store.decide("t", [("m:0", YES(1, id="d1"))], at_ms=300) is None
    assert await store.decide("t", [("call-m:0", YES(1, id="d1"))], at_ms=300) is None
    assert await all_tickets(store) == kept
    assert len(await store.load_commands("t")) == 1
    await _refuses(store, ("m:0", YES(2, id="d1")))

    both = [("m:0", YES(1, id="d1")), ("m:1", YES(id="d2"))]
    await store.decide("t", both, at_ms=300)
    (_, second) = await store.load_commands("t")
    assert [target for target, _ in second.decisions] == ["m:1"]


@check
async def a_repeated_decision_is_known_after_its_run(store: Store) -> None:
    """The ticket stays answered, although the command is done."""
    await _ask(store)
    number = await store.decide("t", [("m:0", YES(id="d1"))], at_ms=200)
    await write(store, run=record("r", status=DONE), acks=(number,))

    assert await _statuses(store) == {"m:0": ANSWERED}
    assert await store.decide("t", [("m:0", YES(id="d1"))], at_ms=300) is None


@check
async def an_answer_that_comes_too_late_is_refused(store: Store) -> None:
    """04/M-4 in spirit: at `expires_at` itself it is not too late."""
    await _ask(store, *(ticket(f"m:{n}", asked_at=n, expires_at=500) for n in range(3)))
    await store.decide("t", [("m:0", YES())], at_ms=499)
    await store.decide("t", [("m:1", YES())], at_ms=500)
    await _refuses(store, ("m:2", YES()), at_ms=501)
    assert (await _statuses(store))["m:2"] is OPEN


@check
async def an_answer_to_nothing_is_refused(store: Store) -> None:
    await _ask(store)
    refusal = await _refuses(store, ("ghost", YES()))
    assert refusal.target == "ghost"
    await _refuses(store, ("", YES()))
    elsewhere = store.decide("elsewhere", [("m:0", YES())], at_ms=200)
    await expect_error_without_change(store, DecisionRefused, elsewhere)


@check
async def no_decision_is_none(store: Store) -> None:
    await _ask(store)
    assert await store.decide("t", [], at_ms=200) is None
    assert list(await store.load_commands("t")) == []


@check
async def a_name_that_may_mean_two_is_refused(store: Store) -> None:
    """Call ids repeat in other steps; the key is unique."""
    first, second = (ticket(f"m:{n}", call_id="same", asked_at=n) for n in range(2))
    await _ask(store, first, second)
    await _refuses(store, ("same", YES()))
    await _refuses(store, ("same", YES(digest=first.digest)))

    await store.decide("t", [("m:1", YES())], at_ms=200)
    await store.decide("t", [("same", YES(digest=first.digest))], at_ms=200)
    assert set((await _statuses(store)).values()) == {ANSWERED}


@check
async def answers_are_taken_all_or_none(store: Store) -> None:
    """01/D-15: no batch is applied in part."""
    await _ask(store, ticket("m:0"), ticket("m:1", asked_at=101))

    await _refuses(store, ("m:0", YES()), ("ghost", YES()))
    await _refuses(store, ("m:0", YES()), ("m:1", YES(digest="forged")))
    await _refuses(store, ("m:0", YES(id="d1")), ("call-m:0", NO(id="d2")))
    assert set((await _statuses(store)).values()) == {OPEN}


# -- closing ----------------------------------------------------------------------------------


@check
async def tickets_close_with_their_run(store: Store) -> None:
    """The open ones; answered tickets stay answered, and tickets of other runs stay open."""
    await _ask(store, ticket("m:0"), ticket("m:1", asked_at=101))
    other = ticket("n:0", run_id="s", asked_at=102)
    await write(store, run=record("s", status=WAITING), tickets=(other,))
    await store.decide("t", [("m:0", YES())], at_ms=200)

    await write(store, run=record("r", status=RUNNING))
    assert await _statuses(store) == {"m:0": ANSWERED, "m:1": OPEN, "n:0": OPEN}
    await write(store, run=record("r", status=DONE))
    assert await _statuses(store) == {"m:0": ANSWERED, "m:1": CLOSED, "n:0": OPEN}
    await _refuses(store, ("m:1", YES()))


@check
async def a_ticket_a_last_commit_brings_is_closed(store: Store) -> None:
    await write(store, run=record("r", status=DONE), tickets=(ticket(),))

    assert await _statuses(store) == {"m:0": CLOSED}


@check
async def no_commit_takes_an_answer_back(store: Store) -> None:
    """Its writer did not know of the answer yet."""
    await _ask(store)
    await store.decide("t", [("m:0", YES(id="d1"))], at_ms=200)
    answered = await all_tickets(store)

    changes: list[dict[str, Any]] = [{"status": CLOSED}, {"status": TicketStatus.EXPIRED}, {}]
    for change in changes:
        await write(store, tickets=(ticket(**change),))
        assert await all_tickets(store) == answered
