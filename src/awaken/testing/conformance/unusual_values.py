"""Checks with unusual names and large values."""

from __future__ import annotations

from awaken.core.event import ToolCallReady
from awaken.core.message import Base64Source, Image, Message, Text, ToolCall
from awaken.core.profile import ProfileOwner
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.suspension import ToolCallResume
from awaken.testing.conformance.helpers import (
    DONE,
    WAITING,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    all_tickets,
    event,
    names,
    raw,
    record,
    says,
    ticket,
    write,
)

check = Suite[StoreCheck]()

NAMES = (
    "with space",
    " leading and trailing ",
    "quote ' double \" back \\ tick `",
    "'; DROP TABLE threads; --",
    "per%cent _under_ * ? [a-z]",
    "slash/../and\\..",
    "line\nbreak\ttab\r",
    "ünïcödé 漢字 \U0001f600 e\u0301 \u202eright to left",
    "\u00e9 is not e\u0301",
    "colon:1",
    "UPPER",
    "upper",
    "long " + "x" * 2000,
    "0",
    "null",
)


@check
async def any_text_is_a_name(store: Store) -> None:
    """Any text may name a thread, run, message, state key, ticket or call, and names no other."""
    for number, name in enumerate(NAMES):
        asked = ticket(name, thread_id=name, run_id=name, asked_at=number)
        await write(
            store,
            name,
            messages=(Message.user(name, id=name).mark_produced_by(name),),
            run=record(name, name, status=WAITING, agent_id=name, created_at=number),
            thread_state=raw(**{name: number}),
            run_state=raw(**{name: -number}),
            events=(event(thread_id=name, run_id=name),),
            tickets=(asked,),
            at_ms=number,
        )
    assert await all_threads(store, limit=4) == list(reversed(NAMES))
    assert await all_runs(store, limit=4) == list(reversed(NAMES))
    assert names(await all_tickets(store, limit=4)) == list(NAMES)
    for number, name in enumerate(NAMES):
        (message,) = await store.load_messages(name)
        assert (message.id, message.text()) == (name, name)
        assert (await store.load_thread_state(name)).extensions == {name: number}
        assert (await store.load_run_state(name)).extensions == {name: -number}
        assert await all_runs(store, agent_id=name) == [name]
        assert name in await all_threads(store, prefix=name)


@check
async def any_text_can_be_claimed_decided_sent_and_forked(store: Store) -> None:
    for name in NAMES:
        fence = await store.claim(name, at_ms=1)
        asked = ticket(name, thread_id=name, run_id=name)
        run = record(name, name, status=WAITING)
        await write(store, name, run=run, tickets=(asked,), fence=fence, release=True)
        answer = ToolCallResume.approve(name, id=name, by=name)
        number = await store.decide(name, [(name, answer)], at_ms=2)
        assert number is not None
        command = ThreadCommand(thread_id=name, kind=CommandKind.CANCEL, run_id=name)
        assert await store.send(command) > number
        assert (await store.fork(name, f"{name} fork", at_ms=3)).forked_from == name
        await write(store, name, run=record(name, name, status=DONE))
        assert (await store.delete_thread(name, at_ms=4)).threads == 1
        await store.profiles.set(ProfileOwner(agent=name), name, name)
        entry = await store.profiles.get(ProfileOwner(agent=name), name)
        assert entry is not None
        assert (entry.key, entry.value) == (name, name)
    assert len(await all_threads(store)) == len(NAMES)


@check
async def a_large_message_comes_back_whole(store: Store) -> None:
    """Nearly a mebibyte, which is the most: text, and image data."""
    text = "".join(chr(33 + number % 900) for number in range(200_000))
    picture = Image(source=Base64Source(media_type="image/png", data="QUJD" * 140_000))
    large = Message.user_with_content((Text(text=text), picture), id="large")
    await write(store, messages=(*says("before"), large, *says("after")))

    messages = await store.load_messages("t")

    assert list(messages) == [*says("before"), large, *says("after")]
    assert list(await store.load_messages("t", after=2)) == list(says("after"))


@check
async def a_commit_may_hold_much(store: Store) -> None:
    words = [str(number) for number in range(1000)]
    arguments = {"deep": [{"x": 1.5, "y": None}] * 35}
    ready = event(ToolCallReady(id="c", name="tool", arguments=arguments))
    await write(
        store,
        messages=says(*words),
        events=(ready,) * 1000,
        thread_state=raw(**{f"k{number}": "v" * 100 for number in range(300)}),
    )

    found = await store.load_messages("t", after=500, limit=3)
    assert [message.text() for message in found] == ["500", "501", "502"]
    events = await store.load_events("t", after=998)
    assert [entry.seq for entry in events] == [999, 1000]
    assert events[0].event == ready.event
    assert len((await store.load_thread_state("t")).extensions) == 300


@check
async def json_of_any_shape_comes_back(store: Store) -> None:
    value = {
        "": [None, True, False, 0, -1, 2**53, 1.5, -0.1, 1e300, "", "\u0000\u001f\u2028"],
        "nested": {"list": [[[]]], "dict": {"a": {}}},
        "text": 'quote " back \\ slash / \U0001f600',
    }
    call = ToolCall(id="c", name="tool", arguments=value)
    message = Message.assistant_with_tool_calls("", [call], id="m")
    asked = ticket(arguments=value)
    await write(
        store, messages=(message,), run=record("r"), thread_state=raw(v=value), tickets=(asked,)
    )

    assert list(await store.load_messages("t")) == [message]
    assert (await store.load_thread_state("t")).extensions == {"v": value}
    assert await all_tickets(store) == [asked]
