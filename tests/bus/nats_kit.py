"""A real NATS server for tests, and buses on it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

import pytest

from awaken.bus.nats import NatsBus

_PROGRAM = Path(sys.executable).with_name("nats-server")
_NUMBERS = count(1)


class NatsServer:
    """A NATS server on a port of this machine. It keeps its port when it is started again."""

    def __init__(self, home: Path, *options: str) -> None:
        self._home, self._options = home, options
        self.port = -1
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["-a", "127.0.0.1", "-p", str(self.port), "--ports_file_dir", str(self._home)]
        with (self._home / "nats.log").open("ab") as log:
            self._process = subprocess.Popen([_PROGRAM, *words, *self._options], stderr=log)
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
def open_server(*options: str) -> Iterator[NatsServer]:
    with tempfile.TemporaryDirectory(prefix="awaken-nats-") as home:
        server = NatsServer(Path(home), *options)
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
async def two_nodes(server: NatsServer) -> AsyncIterator[tuple[NatsBus, NatsBus]]:
    """The buses of two nodes of one deployment."""
    address = server.address()
    async with open_bus(address) as one, open_bus(address) as other:
        yield one, other
