"""Nodes: processes of `awaken serve` on one Postgres and one NATS."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

AGENT = Path(__file__).with_name("agent.py")
_GRACE = 5.0


@dataclass(frozen=True)
class Node:
    """A process that serves; `port` is where."""

    process: asyncio.subprocess.Process
    port: int

    @property
    def pid(self) -> int:
        return self.process.pid


class Nodes:
    """The nodes that live. One that dies has to be replaced by `start`."""

    def __init__(self, store: str, bus: str, home: Path, pace: float) -> None:
        self._words = ("--store", store, "--bus", bus, "--port", "0", "--drain", "1")
        self._home, self._pace = home, pace
        self.living: list[Node] = []

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self.living]

    @property
    def notes(self) -> Path:
        """The file that the agent's tool writes to."""
        return self._home / "notes.txt"

    async def start(self) -> Node:
        """Start a node; returns when it serves.

        Raises:
            RuntimeError: it has ended instead; its errors are in the text.
        """
        environment = {"CLUSTER_PACE": str(self._pace), "CLUSTER_NOTES": str(self.notes)}
        with (self._home / "nodes.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "awaken.cli", "serve", str(AGENT), *self._words),
                *("--log", "none", "--no-open"),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=os.environ | environment,
                start_new_session=True,  # Ctrl-C is for the parent, which ends them in order
            )
        try:
            node = Node(process, await self._port_of(process))
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            raise
        self.living.append(node)
        return node

    async def _port_of(self, process: asyncio.subprocess.Process) -> int:
        assert process.stdout is not None
        greeting = (await process.stdout.readline()).decode()
        if not greeting:
            raise RuntimeError((self._home / "nodes.log").read_text())
        return int(greeting.strip().rpartition(":")[2])

    async def kill(self, pid: int) -> Node | None:
        """Kill the node with that pid by SIGKILL; returns it, or `None` if it is not one."""
        node = next((node for node in self.living if node.pid == pid), None)
        if node is not None:
            self.living.remove(node)
            node.process.kill()
            await node.process.wait()
        return node

    async def stop(self) -> None:
        """End all nodes: in order if they do so soon, else at once."""
        for node in self.living:
            with suppress(ProcessLookupError):
                node.process.send_signal(signal.SIGTERM)
        for node in self.living:
            try:
                await asyncio.wait_for(node.process.wait(), _GRACE)
            except TimeoutError:
                node.process.kill()
                await node.process.wait()


@asynccontextmanager
async def running_nodes(
    store: str, bus: str, home: Path, *, count: int, pace: float
) -> AsyncIterator[Nodes]:
    """Nodes that serve; they end with the block."""
    nodes = Nodes(store, bus, home, pace)
    try:
        await nodes.start()  # the first one sets the schema up
        async with asyncio.TaskGroup() as group:
            for _ in range(count - 1):
                group.create_task(nodes.start())
        yield nodes
    finally:
        await asyncio.shield(nodes.stop())
