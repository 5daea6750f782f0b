"""Checks of rewinds: messages go out of view, state goes back, and the log keeps everything."""

from __future__ import annotations

from typing import Any

from awaken.core.store.commands import OUTBOX_KEY, SubmitMode
from awaken.core.store.commits import CallPhase
from awaken.core.store.store import Store
from awaken.errors import InvalidRecord, RewindRefused, ThreadBusy
from awaken.testing.conformance.helpers import (
    DONE,
    WAITING,
    StoreCheck,
    Suite,
    asks,
    event,
    expect_error,
    expect_error_without_change,
    line,
    raw,
    record,
    says,
    texts,
    write,
)
from awaken.testing.conformance.submissions import submission

check = Suite[StoreCheck]()

MANY = 130
"""More commits than a store may have to read for a thread's state."""


async def _write_four_messages(store: Store, **more: Any) -> None:
    """Write the messages `a` to `d`, each with its commit and its state."""
    for number, word in enumerate("abcd", start=1):
        state = raw(n=number, **{word: True})
        await write(store, messages=says(word), events=(event(),), thread_state=state, **more)


async def _seqs(store: Store, **page: Any) -> list[int]:
    return [found.seq for found in await store.load_records("t", **page)]


# -- what is read -----------------------------------------------------------------------------


@check
async def a_rewind_takes_messages_out_of_view_and_the_log_keeps_them(store: Store) -> None:
    await _write_four_messages(store)

    made = await write(store, messages=says("e", "f"), rewinds_to=2)

    assert made.length == 6
    assert await texts(store) == ["a", "b", "e", "f"]
    assert await _seqs(store) == [1, 2, 5, 6]
    assert await texts(store, hidden=True) == ["a", "b", "c", "d", "e", "f"]
    assert await _seqs(store, hidden=True) == [1, 2, 3, 4, 5, 6]
    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.message_count == 6


@check
async def a_page_counts_the_messages_in_view(store: Store) -> None:
    await _write_four_messages(store)
    await write(store, messages=says("e", "f"), rewinds_to=1)

    for after, limit, expected in (
        (0, 2, ["a", "e"]),
        (1, 1, ["e"]),
        (2, 1, ["e"]),
        (4, 5, ["e", "f"]),
        (5, None, ["f"]),
        (6, None, []),
        (0, 0, []),
    ):
        assert await texts(store, after=after, limit=limit) == expected
    assert await _seqs(store, after=2, limit=1) == [5]
    assert await texts(store, after=1, limit=2, hidden=True) == ["b", "c"]


@check
async def a_context_has_the_last_messages_in_view(store: Store) -> None:
    await _write_four_messages(store)
    await write(store, messages=says("e", "f"), rewinds_to=2)

    for tail, expected, skipped in (
        (None, ["a", "b", "e", "f"], 0),
        (9, ["a", "b", "e", "f"], 0),
        (3, ["b", "e", "f"], 1),
        (2, ["e", "f"], 2),
        (1, ["f"], 5),
        (0, [], 6),
    ):
        context = await store.load_context("t", tail=tail)
        assert context is not None
        assert [message.text() for message in context.messages] == expected, tail
        assert (context.skipped, context.hidden) == (skipped, ((2, 4),)), tail


@check
async def rewinds_lie_side_by_side_and_in_each_other(store: Store) -> None:
    await _write_four_messages(store)
    await write(store, messages=says("e"), rewinds_to=3)
    assert await texts(store) == ["a", "b", "c", "e"]
    await write(store, messages=says("f"), rewinds_to=4)  # behind `d`, which is out of view
    assert await texts(store) == ["a", "b", "c", "f"]
    await write(store, messages=says("g", "h"))
    await write(store, messages=says("i"), rewinds_to=7)
    assert await texts(store) == ["a", "b", "c", "f", "g", "i"]
    await write(store, rewinds_to=1)
    assert await texts(store) == ["a"]
    await write(store, rewinds_to=0)
    assert await texts(store) == []
    await write(store, messages=says("j"))
    assert await texts(store) == ["j"]
    assert await _seqs(store) == [10]
    assert len(await texts(store, hidden=True)) == 10


@check
async def commits_tell_what_was_rewound_and_which_keys_they_wrote(store: Store) -> None:
    await _write_four_messages(store)
    await write(store, messages=says("e"), rewinds_to=2, thread_state=raw(y=1, x=2))
    await write(store, messages=says("f"))

    views = await store.load_commits("t")

    assert [view.rewinds_to for view in views] == [None, None, None, None, 2, None]
    assert [view.changed_keys for view in views[2:]] == [("c", "n"), ("d", "n"), ("x", "y"), ()]
    assert [message.text() for view in views for message in view.messages] == list("abcdef")


@check
async def a_rewind_needs_a_message_behind_it(store: Store) -> None:
    await _write_four_messages(store)
    for to in (-1, 4, 5):
        await expect_error_without_change(store, InvalidRecord, write(store, rewinds_to=to))
    await expect_error_without_change(store, InvalidRecord, write(store, "new", rewinds_to=0))


# -- state and calls --------------------------------------------------------------------------


@check
async def state_goes_back_to_before_the_first_message_that_goes(store: Store) -> None:
    """Except what is about tasks and messages outside of the conversation."""
    await _write_four_messages(store)
    await write(store, thread_state=raw(late=1, **{OUTBOX_KEY: {"pending": [1]}}))

    await write(store, messages=says("e"), rewinds_to=2, thread_state=raw(own=1))

    expected: dict[str, Any] = {"n": 2, "a": True, "b": True, "own": 1}
    expected[OUTBOX_KEY] = {"pending": [1]}
    assert (await store.load_thread_state("t")).extensions == expected
    assert await store.list_outboxes() == ["t"]
    await write(store, thread_state=raw(n=9))
    assert (await store.load_thread_state("t")).extensions == expected | {"n": 9}


@check
async def state_stays_rewound_however_long_the_thread_gets(store: Store) -> None:
    for number in range(MANY):
        await write(store, messages=says(f"m{number}"), thread_state=raw(**{f"k{number % 7}": 1}))
    await write(store, rewinds_to=2)
    for number in range(MANY):
        await write(store, messages=says(f"n{number}"), thread_state=raw(n=number))

    assert (await store.load_thread_state("t")).extensions == {"k0": 1, "k1": 1, "n": MANY - 1}
    await write(store, rewinds_to=1)
    assert (await store.load_thread_state("t")).extensions == {"k0": 1}
    await write(store, messages=says("end"))
    assert await texts(store) == ["m0", "end"]


@check
async def a_run_keeps_its_own_state_when_it_rewinds(store: Store) -> None:
    await _write_four_messages(store, run=record("r"), run_state=raw(old=1))
    await write(store, run=record("r", status=DONE))
    await write(store, run=record("q"), run_state=raw(new=1), messages=says("e"), rewinds_to=2)

    context = await store.load_context("t")

    assert context is not None
    assert (context.open_run and context.open_run.run_id) == "q"
    assert context.run_state.extensions == {"new": 1}
    assert (await store.load_run_state("r")).extensions == {"old": 1}
    run = await store.load_run("r")
    assert run is not None


@check
async def what_became_of_a_call_stays_known(store: Store) -> None:
    """A call that started before the rewound messages, and ended with them, has ended."""
    intent, outcome = line("m", 0, CallPhase.INTENT, {"n": 1}), line("m", 0, CallPhase.SUCCEEDED)
    await write(store, messages=(asks("m", "c0"),), run=record("r"), calls=(intent,))
    await write(store, messages=says("result"), run=record("r"), calls=(outcome,))
    later = line("later", 0, CallPhase.SUCCEEDED)
    await write(store, messages=(asks("later", "c0"),), run=record("r"), calls=(later,))

    await write(store, run=record("r", status=DONE), rewinds_to=1)

    context = await store.load_context("t")
    assert context is not None
    assert list(context.calls) == [line("m", 0, CallPhase.SUCCEEDED, {"n": 1})]
    assert [entry.key for entry in await store.load_calls("r")] == ["m:0", "later:0"]
    await write(store, run=record("r", status=DONE), rewinds_to=0)
    copy = await store.fork("t", "copy", at_ms=1)
    for thread_id in ("t", copy.id):
        context = await store.load_context(thread_id)
        assert context is not None
        assert list(context.calls) == []


@check
async def a_rewound_context_is_what_the_commit_leaves(store: Store) -> None:
    intent = line("m", 0, CallPhase.INTENT)
    await write(store, messages=says("a"), run=record("r"), thread_state=raw(x=1))
    await write(store, messages=(asks("m", "c0"),), run=record("r"), calls=(intent,))
    await write(store, messages=says("b", "c"), thread_state=raw(x=2))
    await write(store, messages=says("d"), rewinds_to=3)
    await write(store, messages=says("e"), run=record("r", status=DONE), thread_state=raw(x=3))
    for to in (5, 4, 3, 2, 1, 0):
        before = [await store.load_rewound("t", to, tail=tail) for tail in (None, 2, 0)]
        fork = await store.fork("t", f"fork {to}", at_ms=1)
        await write(store, fork.id, rewinds_to=to)
        after = [await store.load_context(fork.id, tail=tail) for tail in (None, 2, 0)]
        for rewound, context in zip(before, after, strict=True):
            assert rewound is not None
            assert context is not None
            assert rewound.hidden == context.hidden, to
            assert rewound.skipped == context.skipped
            assert list(rewound.messages) == list(context.messages)
            assert rewound.thread_state == context.thread_state
            assert list(rewound.calls) == list(context.calls)
    assert await store.load_rewound("ghost", 0) is None


@check
async def a_fork_is_rewound_as_its_origin_was_then(store: Store) -> None:
    await _write_four_messages(store)
    await write(store, messages=says("e"), rewinds_to=2, events=(event(),))
    await write(store, messages=says("f"), rewinds_to=1, events=(event(),))
    expected = {
        4: (["a", "b", "c", "d"], 4),
        5: (["a", "b", "e"], 2),
        6: (["a", "f"], 1),
        None: (["a", "f"], 1),
    }
    for at, (words, number) in expected.items():
        fork = await store.fork("t", f"fork {at}", at=at, at_ms=1)
        assert await texts(store, fork.id) == words, at
        assert (await store.load_thread_state(fork.id)).extensions["n"] == number, at
    await store.delete_thread("t", at_ms=2)
    await write(store, messages=says("new"))
    assert await texts(store) == ["new"]
    assert await texts(store, "fork 5") == ["a", "b", "e"]


# -- by the id of a message -------------------------------------------------------------------


@check
async def a_message_in_view_is_found_by_its_id(store: Store) -> None:
    await _write_four_messages(store)
    await write(store, messages=(*says("e"), *says("b")), rewinds_to=1)
    ids = {message.text(): message.id or "" for message in await store.load_messages("t")}

    assert await store.find_rewind("t", ids["a"]) == 0
    assert await store.find_rewind("t", ids["e"]) == 4
    assert await store.find_rewind("t", ids["b"]) == 5, "the one in view has the same id"
    gone = (await store.load_messages("t", after=2, limit=1, hidden=True))[0]
    for id, is_hidden in ((gone.id or "", True), ("ghost", False), ("", False)):
        refusal = await expect_error(RewindRefused, store.find_rewind("t", id))
        assert (refusal.message_id, refusal.is_hidden) == (id, is_hidden)
    await expect_error(RewindRefused, store.find_rewind("ghost", ids["a"]))


@check
async def a_submission_knows_where_it_rewinds_to(store: Store) -> None:
    await _write_four_messages(store)
    third = (await store.load_messages("t"))[2].id

    await store.submit(submission(rewind_to=third))

    (command,) = await store.load_commands("t")
    assert command.rewinds_to == 2
    assert command.submission is not None
    assert command.submission.rewind_to == third
    assert await texts(store) == ["a", "b", "c", "d"], "its run rewinds the thread"


@check
async def a_rewind_to_an_unknown_or_rewound_message_is_not_submitted(store: Store) -> None:
    await _write_four_messages(store)
    third = (await store.load_messages("t"))[2].id
    await write(store, messages=says("e"), rewinds_to=2)
    for id in (third, "ghost"):
        for mode in SubmitMode:
            asked = submission(rewind_to=id, mode=mode, key="k")
            await expect_error_without_change(store, RewindRefused, store.submit(asked))
    asked = submission(thread_id="new", rewind_to="ghost")
    await expect_error_without_change(store, RewindRefused, store.submit(asked))


@check
async def a_rewind_waits_for_no_run_but_interrupts_one(store: Store) -> None:
    await _write_four_messages(store, run=record("r", status=WAITING))
    third = (await store.load_messages("t"))[2].id
    for mode in (SubmitMode.QUEUE, SubmitMode.STEER, SubmitMode.REFUSE):
        asked = submission(rewind_to=third, mode=mode)
        refusal = await expect_error_without_change(store, ThreadBusy, store.submit(asked))
        assert refusal.run_id == "r"

    asked = submission(rewind_to=third, mode=SubmitMode.INTERRUPT)
    answer = await store.submit(asked)

    assert answer.run_id == "s"
    assert [command.run_id for command in await store.load_commands("t")] == ["r", "s"]
    second = submission("s2", rewind_to=third)
    await expect_error_without_change(store, ThreadBusy, store.submit(second))


@check
async def a_rewind_that_was_carried_out_is_answered_by_its_key(store: Store) -> None:
    await _write_four_messages(store)
    third = (await store.load_messages("t"))[2].id
    first = await store.submit(submission(rewind_to=third, key="k"))
    (command,) = await store.load_commands("t")
    started = record("s", status=DONE)
    await write(store, run=started, messages=says("e"), acks=(command.id,), rewinds_to=2)

    again = await store.submit(submission("other", rewind_to=third, key="k", messages=says("s")))

    assert (again.run_id, again.is_new, again.cursor) == ("s", False, first.cursor)
    assert list(await store.load_commands("t")) == []
