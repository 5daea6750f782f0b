"""A real NATS server for tests, and buses on it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from awaken.bus import NatsBus

_PROGRAM = Path(sys.executable).with_name("nats-server")
_NUMBERS = count(1)


class NatsServer:
    """A NATS server on a port of this machine. It keeps its port when it is started again."""

    def __init__(self, home: Path, config: str) -> None:
        self._home = home
        (home / "nats.conf").write_text(config)
        self.port = -1
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["-a", "127.0.0.1", "-p", str(self.port), "--ports_file_dir", str(self._home)]
        words += ["-c", str(self._home / "nats.conf")]
        with (self._home / "nats.log").open("ab") as log:
            self._process = subprocess.Popen([_PROGRAM, *words], stderr=log)
        self.port = self._written_port()

    def _written_port(self) -> int:
        assert self._process is not None
        file = self._home / f"nats-server_{self._process.pid}.ports"
        until = time.monotonic() + 30
        while time.monotonic() < until:
            assert self._process.poll() is None, (self._home / "nats.log").read_text()
            try:
                (address,) = json.loads(file.read_text())["nats"]
            except (FileNotFoundError, ValueError):
                time.sleep(0.01)
            else:
                return int(address.rpartition(":")[2])
        raise AssertionError("the server did not start")

    def stop(self) -> None:
        """End it at once. It may be paused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Let it hang: it takes no more bytes, and does not answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def address(self, deployment: str | None = None) -> str:
        """The address of a deployment; of a new one if none is given."""
        return f"nats://127.0.0.1:{self.port}/{deployment or f'test-{next(_NUMBERS)}'}"


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    with open_server() as server:
        yield server


@contextmanager
def open_server(config: str = "") -> Iterator[NatsServer]:
    with tempfile.TemporaryDirectory(prefix="awaken-nats-") as home:
        server = NatsServer(Path(home), config)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@asynccontextmanager
async def open_bus(address: str) -> AsyncIterator[NatsBus]:
    bus = NatsBus(address)
    await bus.open()
    try:
        yield bus
    finally:
        await bus.close()


@asynccontextmanager
async def raw_client(server: NatsServer) -> AsyncIterator[Client]:
    """A client of NATS that knows nothing of this project."""
    client = Client()
    await client.connect(f"nats://127.0.0.1:{server.port}")
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def tapped(server: NatsServer) -> AsyncIterator[Callable[[], list[Msg]]]:
    """A function that returns all messages that have gone over the server in this block."""
    seen: list[Msg] = []

    async def take(message: Msg) -> None:
        seen.append(message)

    async with raw_client(server) as client:
        await client.subscribe(">", cb=take)
        await client.flush()
        yield lambda: seen


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  # no event says that another node was told
            await asyncio.sleep(0.01)


@asynccontextmanager
async def two_nodes(server: NatsServer) -> AsyncIterator[tuple[NatsBus, NatsBus]]:
    """The buses of two nodes of one deployment."""
    address = server.address()
    async with open_bus(address) as one, open_bus(address) as other:
        yield one, other
