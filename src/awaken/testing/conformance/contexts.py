"""Checks of `load_context`: what a run starts from, read at one instant."""

from __future__ import annotations

from awaken.core.message import Message
from awaken.core.run import PersistedState
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallPhase
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadContext
from awaken.testing.conformance.helpers import (
    DONE,
    WAITING,
    StoreCheck,
    Suite,
    asks,
    line,
    raw,
    record,
    says,
    write,
)

check = Suite[StoreCheck]()


async def _context(store: Store, tail: int | None = None) -> ThreadContext:
    context = await store.load_context("t", tail=tail)
    assert context is not None
    return context


@check
async def a_context_has_all_a_run_starts_from(store: Store) -> None:
    await write(
        store,
        messages=says("a", "b"),
        run=record("r", status=WAITING),
        run_state=raw(count=1),
        thread_state=raw(mood="fair"),
    )
    command = ThreadCommand(thread_id="t", kind=CommandKind.CANCEL, run_id="r", at_ms=7)
    number = await store.send(command)

    context = await _context(store)

    assert context.thread == await store.load_thread("t")
    assert [message.text() for message in context.messages] == ["a", "b"]
    assert context.skipped == 0
    assert context.open_run == record("r", status=WAITING)
    assert context.run_state.extensions == {"count": 1}
    assert context.thread_state.extensions == {"mood": "fair"}
    assert [sent.id for sent in context.commands] == [number]
    assert list(context.calls) == []


@check
async def a_context_of_a_thread_without_runs_has_none(store: Store) -> None:
    await write(store, messages=says("a"))

    context = await _context(store)

    assert (context.open_run, context.run_state) == (None, PersistedState())
    assert (list(context.calls), list(context.commands)) == ([], [])


@check
async def a_tail_has_the_last_messages(store: Store) -> None:
    for word in "abcde":
        await write(store, messages=says(word, word.upper()))

    for tail, expected, skipped in (
        (3, "dDeE"[1:], 7),
        (2, "eE", 8),
        (1, "E", 9),
        (0, "", 10),
        (10, "aAbBcCdDeE", 0),
        (99, "aAbBcCdDeE", 0),
        (None, "aAbBcCdDeE", 0),
    ):
        context = await _context(store, tail)
        assert "".join(message.text() for message in context.messages) == expected, tail
        assert context.skipped == skipped, tail


@check
async def the_open_run_comes_before_the_latest(store: Store) -> None:
    await write(store, run=record("waits", status=WAITING), run_state=raw(of="waits"))
    await write(store, run=record("done", status=DONE), run_state=raw(of="done"))
    context = await _context(store)
    assert context.open_run == record("waits", status=WAITING)
    assert context.run_state.extensions == {"of": "waits"}

    await write(store, run=record("waits", status=DONE))
    await write(store, run=record("done", status=DONE, updated_at=2))
    context = await _context(store)
    assert context.open_run == record("done", status=DONE, updated_at=2)


@check
async def a_context_has_the_ledger_of_the_last_turn(store: Store) -> None:
    """Whatever came after it, and whether the tail includes it or not."""
    run = record("r")
    first = line("m1", 0, CallPhase.SUCCEEDED, {"n": 0})
    await write(store, messages=(asks("m1", "c0"),), run=run, calls=(first,))
    assert list((await _context(store)).calls) == [first]

    intents = tuple(line("m2", index, CallPhase.INTENT, {"n": index}) for index in range(2))
    await write(
        store,
        messages=(Message.tool("c0", "ok", id="m-ok"), asks("m2", "c0", "c1")),
        run=run,
        calls=intents,
    )
    held = Message.tool("c1", "early", id="m-early")
    outcome = line("m2", 1, CallPhase.SUCCEEDED, held=held)
    await write(store, run=run, calls=(outcome, line("m1", 0, CallPhase.FAILED)))
    await write(store, messages=says("a", "b"), run=record("s"))

    for tail in (None, 1):
        calls = sorted((await _context(store, tail)).calls, key=lambda entry: entry.key)
        assert calls == [
            line("m2", 0, CallPhase.INTENT, {"n": 0}),
            line("m2", 1, CallPhase.SUCCEEDED, {"n": 1}, held=held),
        ]


@check
async def calls_that_never_started_have_no_entry(store: Store) -> None:
    """Entries of the step before are not mistaken for theirs."""
    run = record("r")
    first = line("m1", 0, CallPhase.SUCCEEDED)
    await write(store, messages=(asks("m1", "c0"),), run=run, calls=(first,))
    await write(store, messages=(asks("m2", "c0"), *says("b")), run=run)

    assert list((await _context(store)).calls) == []


@check
async def a_turn_whose_name_begins_like_another_is_not_taken_for_it(store: Store) -> None:
    run = record("r")
    longer = line("m:1", 0, CallPhase.SUCCEEDED)
    await write(store, messages=(asks("m:1", "c0"),), run=run, calls=(longer,))
    await write(store, messages=(asks("m", "c0"),), run=run)

    assert list((await _context(store)).calls) == []
