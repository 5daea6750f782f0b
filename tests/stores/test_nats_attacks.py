"""The bus over NATS against hostile messages, servers that hang, and servers that are none."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nats_kit import (
    NatsServer,
    nats_server,
    open_bus,
    open_server,
    raw_client,
    tapped,
    two_nodes,
    until,
)

from awaken.bus import NatsBus
from awaken.codec import dumps
from awaken.core.bus import Progress, PublisherState, Subscription, Topic
from awaken.core.event import RunEvent, StepSnapshot, TextDelta
from awaken.core.store.commits import Fence
from awaken.stores.bus.nats import connection
from awaken.stores.bus.nats.bus import Interests
from awaken.stores.bus.nats.wire import (
    Batch,
    Interest,
    OwnerAnswer,
    Packed,
    Subjects,
    Unreadable,
    batch_of,
    hash_of,
    interest_of,
    pack,
    parse_publisher_state,
)

__all__ = ["nats_server"]

pytestmark = pytest.mark.anyio

T = "t"


def event(text: str, *, n: int = 1, epoch: int = 1, thread_id: str = T) -> RunEvent:
    return RunEvent(
        thread_id=thread_id, run_id="r", at_ms=1, live=(epoch, n), event=TextDelta(delta=text)
    )


def say(topic: Topic, text: str) -> None:
    topic.n += 1
    topic.publish(event(text, n=topic.n, epoch=topic.epoch))


def fence(thread_id: str = T) -> Fence:
    return Fence(thread_id=thread_id, epoch=1, owner="owner")


async def texts(subscription: Subscription, last: str) -> list[str]:
    """What is heard up to a text."""
    heard: list[str] = []
    async with asyncio.timeout(60):
        while last not in heard:
            for one in (await subscription.receive()).events:
                assert isinstance(one.event, TextDelta)
                heard.append(one.event.delta)
    return heard


# -- messages -------------------------------------------------------------------------------------

GOOD = [
    dumps(Batch(1, (event("a"), event("b", n=2)), False)),
    dumps(Interest(1, "node", (hash_of(T),))),
    dumps(OwnerAnswer(1, PublisherState(run_id="r", epoch=1, n=1, seq=0, ahead=()))),
]


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A good message with some bytes cut out and others put in."""
    data = draw(st.sampled_from(GOOD))
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, len(data)))
    return data[:start] + draw(st.binary(max_size=20)) + data[end:]


@given(st.binary(max_size=200) | changed())
@example(b"")
@example(b"[" * 100_000)
@example(b"[1," + b"[" * 100_000)
@example(b"[1,[],null]")
@example(b'[1,"' + b"x" * 10_000_000 + b'"]')
@example(b"[-1e999]")
@example(b"[" + b"9" * 5000 + b",[],false]")
def test_a_message_is_read_or_refused_and_nothing_else(data: bytes) -> None:
    for read in (
        lambda: batch_of(data, T),
        lambda: interest_of(data),
        lambda: parse_publisher_state(data, T),
    ):
        with suppress(Unreadable):
            read()


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (Batch(2, (event("a"),), False), "version"),
        (Batch(1, (event("a", thread_id="acme/t"),), False), "invalid"),
        (Batch(1, (event("a", epoch=0),), False), "invalid"),
        (Batch(1, (event("a", n=-1),), False), "invalid"),
        (Batch(1, (RunEvent(thread_id=T, run_id="r", at_ms=1, event=TextDelta(delta="")),), False),
         "invalid"),
    ],
)  # fmt: skip
def test_events_of_another_version_thread_or_place_are_refused(batch: Batch, reason: str) -> None:
    with pytest.raises(Unreadable) as refused:
        batch_of(dumps(batch), T)

    assert refused.value.reason == reason


def test_a_later_version_of_another_shape_is_told_from_garbage() -> None:
    with pytest.raises(Unreadable) as refused:
        batch_of(b'[2,{"events":"elsewhere"}]', T)

    assert refused.value.reason == "version"


def test_events_are_packed_in_order_and_those_that_do_not_fit_leave_a_hint() -> None:
    events = [
        event("x" * 300),
        event("y" * 5_000, n=2),
        *(event("z" * 300, n=n) for n in (3, 4, 5)),
    ]

    packed = list(pack(events, lost=False, longest=1_000))

    assert all(len(one.data) <= 1_000 for one in packed)
    batches = [batch_of(one.data, T) for one in packed]
    numbers = [[e.live[1] for e in batch.events if e.live] for batch in batches]
    assert numbers == [[1], [], [3, 4], [5]]
    assert [batch.lost for batch in batches] == [False, True, False, False]
    assert [one.dropped for one in packed] == [0, 1, 0, 0]


def test_an_event_that_json_cannot_hold_leaves_a_hint() -> None:
    assert list(pack([event("\ud800")], lost=False, longest=1_000)) == [
        Packed(b"[1,[],true]", 0, 1)
    ]


def test_what_other_nodes_follow_is_bounded_and_ends() -> None:
    interests = Interests(most=2)

    assert interests.add("a", "one", 10)
    assert interests.add("a", "two", 20)
    assert not interests.add("b", "one", 10)
    assert interests.add("a", "one", 15), "it is renewed"
    interests.expire(15)
    assert "a" in interests
    interests.remove("a", "two")
    interests.remove("a", "two")
    assert "a" not in interests
    assert interests.add("b", "one", 10)


# -- over a server --------------------------------------------------------------------------------


async def test_hostile_messages_are_counted_and_never_reach_a_listener(
    nats_server: NatsServer,
) -> None:
    """Garbage, cut, huge, of another version, thread or epoch, on each subject of a thread."""
    address = nats_server.address("attacked")
    subjects, thread = Subjects("attacked"), hash_of(T)
    evil = [
        b"",
        b"\x00\xff garbage",
        GOOD[0][:-20],
        b"[" * 100_000,
        b"x" * 1_000_000,
        dumps(Batch(7, (event("evil"),), False)),
        dumps(Batch(1, (event("evil", thread_id="acme/t"),), False)),
        dumps(Batch(1, (event("evil", epoch=-5),), False)),
    ]
    async with open_bus(address) as one, open_bus(address) as two, raw_client(nats_server) as raw:
        topic = one.topic(fence())
        topic.attach(lambda: Progress("r", 1))
        async with two.listen(T) as subscription:
            await until(lambda: topic.wanted)
            for subject in (subjects.events(thread), subjects.owner(thread), subjects.interest):
                for data in evil:
                    await raw.publish(subject, data, reply=subjects.inbox("x"))
            # A question whose answer would go where others listen.
            await raw.publish(
                subjects.owner(thread), GOOD[1], reply=subjects.events(hash_of("other"))
            )
            await raw.flush()
            say(topic, "good")
            assert await texts(subscription, "good") == ["good"]
            assert await two.snapshot(T) == PublisherState(run_id="r", epoch=1, n=1, seq=1)
        await until(lambda: one.health.dropped.get("version", 0) >= 2)
        assert two.health.dropped["version"] >= 1
        assert two.health.dropped["invalid"] >= 7
        assert one.health.is_up
        assert two.health.is_up


@pytest.mark.parametrize(
    "thread_id", ["a.b", "*", ">", "a b", "acme/t~c", "t'\"; \x00 🙂", "x" * 10_000, "\ud800"]
)
async def test_no_id_appears_in_a_subject(nats_server: NatsServer, thread_id: str) -> None:
    """06/CL-23."""
    async with tapped(nats_server) as seen, two_nodes(nats_server) as (owners, listeners):
        topic = owners.topic(fence(thread_id))
        async with listeners.listen(thread_id):
            await until(lambda: topic.wanted)
            await listeners.snapshot(thread_id)
        await until(lambda: len(seen()) >= 5)
        for message in seen():
            root, deployment, kind, *rest = message.subject.split(".")
            assert (root, len(deployment)) == ("awk", 32)
            assert kind in "twoi"
            assert all(part.isalnum() for part in rest)


@pytest.fixture(scope="module")
def narrow_server() -> Iterator[NatsServer]:
    """A server that takes messages of 4 KiB at most."""
    with open_server("max_payload: 4096") as server:
        yield server


async def test_what_is_too_large_is_sent_as_a_hint(narrow_server: NatsServer) -> None:
    async with two_nodes(narrow_server) as (owners, listeners):
        topic = owners.topic(fence())
        topic.attach(lambda: Progress("r", 1, (), StepSnapshot(message_id="m", text="x" * 5_000)))
        async with listeners.listen(T) as subscription:
            await until(lambda: topic.wanted)
            await until(lambda: owners.health.sent >= 1)
            say(topic, "x" * 5_000)
            async with asyncio.timeout(60):
                while not (heard := await subscription.receive()).lost:
                    pass
            assert not heard.events
            assert await listeners.snapshot(T) is None, "the store stands for it"
            say(topic, "small")
            assert await texts(subscription, "small") == ["small"]
        assert owners.health.dropped == {"too_large": 2}
        assert owners.health.is_up


async def test_a_server_that_hangs_costs_bounded_memory_and_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An owner never waits for it. It is heard again when it is back."""
    monkeypatch.setattr(connection, "FLUSH_SECONDS", 0.5)
    with open_server() as server:
        async with two_nodes(server) as (owners, listeners):
            topic = owners.topic(fence())
            async with listeners.listen(T) as subscription:
                await until(lambda: topic.wanted)
                server.pause()
                tracemalloc.start()
                while topic.wanted:
                    for _ in range(20):
                        say(topic, "x" * 10_000)
                    await asyncio.sleep(0.001)
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert peak < 40 * 1024 * 1024
                assert not owners.health.is_up
                assert owners.health.dropped["slow"] > 0
                server.resume()
                await until(lambda: topic.wanted)
                say(topic, "again")
                assert (await texts(subscription, "again"))[-1] == "again"
    assert caplog.text.count("is slow") == 1


@asynccontextmanager
async def speaking(*lines: bytes) -> AsyncIterator[int]:
    """A program on a port that says these lines to whoever connects, and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for line in lines:
            writer.write(line)
        await writer.drain()
        await reader.read(1_000)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "lines",
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        (b"INFO [1]\r\n",),
        (b"INFO {\r\n",),
        (b"\x00" * 100_000,),
        (b'INFO {"max_payload": "x"}\r\n', b"PONG\r\n", b"MSG a b c d\r\n"),
        (b'INFO {"max_payload": 9}\r\n', b"-ERR 'Authorization Violation'\r\n"),
    ],
)
async def test_a_server_that_is_none_leaves_the_bus_within_the_process(
    lines: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    async with speaking(*lines) as port, open_bus(f"nats://me:hunter2@127.0.0.1:{port}") as bus:
        topic = bus.topic(fence())
        async with bus.listen(T) as subscription:
            say(topic, "here")
            assert await texts(subscription, "here") == ["here"]
        await until(lambda: "is away" in caplog.text)
        assert not bus.health.is_up
    assert "hunter2" not in caplog.text


async def test_credentials_are_not_told_to_a_server_without_tls(nats_server: NatsServer) -> None:
    said = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"max_payload": 1000, "auth_required": true}\r\n')
        if await reader.read(1_000):
            said.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with open_bus(f"tls://me:hunter2@127.0.0.1:{port}") as bus:
            assert not bus.health.is_up
        assert not said.is_set()


async def test_a_bus_that_was_closed_can_be_opened_again(nats_server: NatsServer) -> None:
    bus = NatsBus(nats_server.address())
    for _ in range(2):
        await bus.open()
        await bus.open()
        assert bus.health.is_up
        await bus.close()
        await bus.close()
        assert not bus.health.is_up
