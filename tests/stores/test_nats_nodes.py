"""Runs on one node, followed on another: over NATS, and while NATS is away."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from nats_kit import NatsServer, nats_server, open_server, raw_client, tapped, until

from awaken import Agent, Runtime
from awaken.codec import dumps
from awaken.core.event import RunEvent, RunFinish, TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role
from awaken.stores.bus.nats.wire import Batch, Subjects, hash_of

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

from follow_kit import Reader

__all__ = ["nats_server"]

pytestmark = pytest.mark.anyio

T = "t"
NODE = Path(__file__).with_name("talking_node.py")


class PacedModel:
    """Writes a word each time it is told to, until it is told to end its answer."""

    name = "paced"

    def __init__(self) -> None:
        self._told: asyncio.Queue[bool] = asyncio.Queue()

    def write(self, words: int = 1) -> None:
        for _ in range(words):
            self._told.put_nowait(True)

    def end(self) -> None:
        self._told.put_nowait(False)

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        number = 0
        while await self._told.get():
            number += 1
            yield TextDelta(delta=f"{number} ")
        yield Stop(reason=StopReason.END_TURN)


class Follower:
    """Follows the thread on a node. `live` are the words that came over the bus."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.reader = Reader()
        self.live: list[str] = []
        self.ends = 0

    async def follow(self) -> None:
        async with aclosing(self._runtime.follow(T)) as events:
            async for event in events:
                self._take(event)

    def _take(self, event: RunEvent) -> None:
        self.reader.read(event)
        if isinstance(event.event, TextDelta) and event.live is not None:
            self.live.append(event.event.delta)
        if isinstance(event.event, RunFinish) and not event.ahead:
            self.ends += 1

    async def until(self, holds: Callable[[Follower], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds(self):
                self.reader.news.clear()
                await self.reader.news.wait()

    async def check(self) -> None:
        """It has got every durable event, and of each answer what the log has."""
        store = self._runtime.store
        stored = await store.load_events(T)
        assert [e.event for e in self.reader.durable.values()] == [e.event for e in stored]
        for message in await store.load_messages(T):
            if message.role is Role.ASSISTANT:
                assert self.reader.texts[message.id or ""] == message.text()


class Nodes:
    """Two nodes on one store: one runs an agent, the other follows it."""

    def __init__(self, owner: Runtime, other: Runtime, model: PacedModel) -> None:
        self.owner, self.other, self.model = owner, other, model
        self.follower = Follower(other)

    async def write_until_heard(self) -> None:
        """Let the model write until a word is heard over the bus."""
        before = len(self.follower.live)
        async with asyncio.timeout(60):
            while len(self.follower.live) == before:
                self.model.write()
                await asyncio.sleep(0.05)

    async def run(self) -> None:
        await self.owner.run("a", "go", thread=T)


@asynccontextmanager
async def two_nodes(file: Path, bus: str) -> AsyncIterator[Nodes]:
    model = PacedModel()
    owner = Runtime([Agent("a", model=model)], store=f"sqlite:///{file}", bus=bus)
    other = Runtime([], store=f"sqlite:///{file}", bus=bus, recover=False)
    async with owner, other:
        yield Nodes(owner, other, model)


async def test_a_node_hears_a_run_of_another_process_and_of_the_one_that_takes_it_over(
    tmp_path: Path, nats_server: NatsServer
) -> None:
    """06/CL-13: as the model writes, and all of it by the end of the step. The first owner is
    killed in the middle of its answer."""
    store, bus = f"sqlite:///{tmp_path}/f.db", nats_server.address()
    async with Runtime([], store=store, bus=bus, recover=False) as runtime:
        follower = Follower(runtime)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(follower.follow())
            node = await asyncio.create_subprocess_exec(
                sys.executable, str(NODE), store, bus, stdin=subprocess.PIPE
            )
            assert node.stdin is not None
            await follower.until(lambda f: bool(f.reader.durable))
            # The first words may come with the answer where the owner stands.
            while len(follower.live) < 3:
                length = follower.reader.size
                node.stdin.write(b"word \n")
                await follower.until(lambda f: f.reader.size > length)  # noqa: B023
            node.kill()
            await node.wait()
            model = PacedModel()
            async with Runtime([Agent("a", model=model)], store=store, bus=bus) as third:
                nodes = Nodes(third, runtime, model)
                nodes.follower = follower
                await nodes.write_until_heard()
                model.end()
                await follower.until(lambda f: f.ends == 1)
            following.cancel()
        await follower.check()


async def test_a_node_that_joins_in_the_middle_gets_the_beginning_at_once(
    tmp_path: Path, nats_server: NatsServer
) -> None:
    async with two_nodes(tmp_path / "f.db", nats_server.address()) as nodes:
        late = Follower(nodes.other)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(nodes.run())
            following = tasks.create_task(nodes.follower.follow())
            await nodes.write_until_heard()
            ((answer, begun),) = nodes.follower.reader.texts.items()
            joining = tasks.create_task(late.follow())
            await late.until(lambda f: f.reader.texts.get(answer, "").startswith(begun))
            nodes.model.end()
            await running
            for follower in (late, nodes.follower):
                await follower.until(lambda f: f.ends == 1)
            following.cancel()
            joining.cancel()
        await late.check()
        await nodes.follower.check()


@pytest.fixture
def own_server() -> Iterator[NatsServer]:
    """A server that the test may stop."""
    with open_server() as server:
        yield server


async def test_a_follower_misses_nothing_while_nats_stops_and_comes_back(
    tmp_path: Path, own_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    """06/CL-12: stopped, started, stopped under a run. Words are heard live as soon as it is back,
    and the log says once for each outage that it is away."""
    async with two_nodes(tmp_path / "f.db", own_server.address()) as nodes:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(nodes.run())
            following = tasks.create_task(nodes.follower.follow())
            await nodes.write_until_heard()
            own_server.stop()
            nodes.model.write(20)
            own_server.start()
            await nodes.write_until_heard()
            own_server.stop()
            nodes.model.write(20)
            nodes.model.end()
            await running
            await nodes.follower.until(lambda f: f.ends == 1)
            following.cancel()
        await nodes.follower.check()
        for runtime in (nodes.owner, nodes.other):
            assert runtime.bus_health is not None
            assert not runtime.bus_health.is_up
    said = [record.message for record in caplog.records if record.name == "awaken.bus"]
    assert sum("is away" in line for line in said) == 4, said
    assert sum(line.endswith("is back") for line in said) == 2, said


async def test_a_run_that_no_other_node_follows_publishes_nothing(
    tmp_path: Path, nats_server: NatsServer
) -> None:
    """06/CL-14. A follower on the node itself hears it without the bus."""
    address = nats_server.address()
    events = Subjects(address.rpartition("/")[2]).events(hash_of(T))
    async with tapped(nats_server) as seen, two_nodes(tmp_path / "f.db", address) as nodes:
        here = nodes.follower = Follower(nodes.owner)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(here.follow())
            running = tasks.create_task(nodes.run())
            await nodes.write_until_heard()
            nodes.model.end()
            await running
            await here.until(lambda f: f.ends == 1)
            following.cancel()
        await until(lambda: any(message.subject.endswith(".w") for message in seen()))
        assert not [message for message in seen() if message.subject == events]


async def test_a_follower_is_not_misled_by_events_of_another_claim(
    tmp_path: Path, nats_server: NatsServer
) -> None:
    """Forged or late: of an older epoch, of one that is yet to come, and far ahead in this one."""
    address = nats_server.address()
    subject = Subjects(address.rpartition("/")[2]).events(hash_of(T))
    async with two_nodes(tmp_path / "f.db", address) as nodes, raw_client(nats_server) as raw:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(nodes.run())
            following = tasks.create_task(nodes.follower.follow())
            await nodes.write_until_heard()
            for place in ((2**62, 1), (2**62, 2), (1, 10**6), (1, 1)):
                for seq, ahead in ((None, False), (10**9, False), (10**9, True)):
                    forged = RunEvent(
                        thread_id=T,
                        run_id="r",
                        at_ms=1,
                        live=place,
                        seq=seq,
                        ahead=ahead,
                        event=TextDelta(delta="evil"),
                    )
                    await raw.publish(subject, dumps(Batch(1, (forged,), False)))
            await raw.flush()
            await nodes.write_until_heard()
            nodes.model.end()
            await running
            await nodes.follower.until(lambda f: f.ends == 1)
            following.cancel()
        assert "evil" not in nodes.follower.live
        await nodes.follower.check()


async def test_a_thread_of_another_deployment_is_not_heard(
    tmp_path: Path, nats_server: NatsServer
) -> None:
    """Two deployments share a NATS server, and have a thread of the same name."""
    async with two_nodes(tmp_path / "one.db", nats_server.address()) as nodes:
        address, file = nats_server.address(), tmp_path / "other.db"
        async with Runtime([], store=f"sqlite:///{file}", bus=address, recover=False) as stranger:
            heard: list[RunEvent] = []

            async def listen() -> None:
                async with aclosing(stranger.follow(T)) as events:
                    async for event in events:
                        heard.append(event)

            async with asyncio.TaskGroup() as tasks:
                tapping = tasks.create_task(listen())
                running = tasks.create_task(nodes.run())
                following = tasks.create_task(nodes.follower.follow())
                await nodes.write_until_heard()
                nodes.model.end()
                await running
                await nodes.follower.until(lambda f: f.ends == 1)
                following.cancel()
                tapping.cancel()
            assert not heard


async def test_a_runtime_starts_and_works_without_its_bus(
    tmp_path: Path, own_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A follower elsewhere reads the store. The password in the address is not told."""
    own_server.stop()
    bus = own_server.address().replace("//", "//me:hunter2@")
    async with two_nodes(tmp_path / "f.db", bus) as nodes:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(nodes.follower.follow())
            nodes.model.write(3)
            nodes.model.end()
            await nodes.run()
            await nodes.follower.until(lambda f: f.ends == 1)
            following.cancel()
        await nodes.follower.check()
        assert not nodes.follower.live
    assert "is away" in caplog.text
    assert "hunter2" not in caplog.text
