"""What `make cluster` plays: a question, a node that is killed while it answers, and the rest."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.text import Text

from awaken.cli.output import count
from awaken.cli.stdin_lines import StdinLines
from awaken.stores.postgres import PostgresStore
from cluster.client import Client
from cluster.nodes import Node, Nodes

THREAD = "a-question"
QUESTION = "What happens to you if the machine that you run on dies?"
KILLED_AT = 40
"""How many words of the answer have come when the node is killed."""


class Heard:
    """What a client has of the answer, put together as any page does it.

    After a node has died, the answer is known up to where it was kept, which may be less than what
    was heard. Then the same words come again; they are not shown again.
    """

    def __init__(self) -> None:
        self.text = ""
        self._shown = ""
        self._is_void = True
        """Whether the turn that was open is void, so that the next one takes its place."""

    def add(self, event: dict[str, Any]) -> str:
        """Take an event in; returns the text to show."""
        match event["event_type"]:
            case "text_delta":
                self.text += event["delta"]
            case "step_snapshot":
                self.text = event["text"]
            case "stream_reset":
                self.text, self._is_void = "", True
            case "step_start" if self._is_void:
                self.text, self._is_void = "", False
            case "step_start":
                self.text = self._shown = ""
                return "\n\n"
        if self._shown.startswith(self.text):
            return ""
        new = self.text.removeprefix(self._shown)
        self._shown = self.text
        return new

    @property
    def words(self) -> int:
        return len(self.text.split())


class Cluster:
    """The nodes, and the store that says which of them has a thread."""

    def __init__(self, nodes: Nodes, store: PostgresStore, console: Console) -> None:
        self._nodes, self._store, self._console = nodes, store, console

    async def answering(self, thread: str) -> Node | None:
        """The node that has claimed a thread, if there is one that lives."""
        head = await self._store.load_thread(thread)
        if head is None or head.owner is None:
            return None
        pids = {process.owner: process.pid for process in await self._store.processes()}
        pid = pids.get(head.owner)
        return next((node for node in self._nodes.living if node.pid == pid), None)

    async def kill_answering(self, thread: str) -> Node | None:
        """Kill the node that has a thread; returns it, or `None` if no node has it."""
        node = await self.answering(thread)
        if node is not None:
            await self._nodes.kill(node.pid)
            self.note(f"✗ the node that answered, pid {node.pid}, was killed (SIGKILL)", "bold red")
        return node

    async def recover(self, thread: str) -> None:
        """Start a node in the place of the dead one, and say when another one has the thread."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            started = group.create_task(self._nodes.start())
            while (node := await self.answering(thread)) is None:  # noqa: ASYNC110 nodes tell nobody
                await asyncio.sleep(0.02)
            took = time.monotonic() - began
            words = f"↻ the node with pid {node.pid} goes on with the answer, {took:.1f} s later"
            self.note(words, "bold green")
            new = await started
            self.note(f"+ a new node has taken the place of the dead one: pid {new.pid}", "dim")

    async def answer_of(self, run: str) -> str | None:
        """The answer of a run, as it is stored."""
        record = await self._store.load_run(run)
        return record.final_output if record is not None else None

    def note(self, words: str, style: str) -> None:
        self._console.print(Text(f"\n{words}", style))


async def play(cluster: Cluster, client: Client, nodes: Nodes, console: Console) -> bool:
    """Play it in the terminal, to its end. Returns whether all went well."""
    console.print(Text(f"\nyou › {QUESTION}\n", "bold"))
    run = await client.ask(THREAD, QUESTION)
    heard, killed = Heard(), None
    async with asyncio.TaskGroup() as group:
        async for told in client.follow(run):
            console.print(Text(heard.add(told["event"])), end="")
            if killed is None and heard.words >= KILLED_AT:
                killed = await cluster.kill_answering(THREAD)
                if killed is not None:
                    group.create_task(cluster.recover(THREAD))
    stored = await cluster.answer_of(run)
    notes = nodes.notes.read_text().splitlines()
    is_same = stored == heard.text
    console.print("\n")
    console.print(Text("What you saw", "bold"))
    for line in (
        f"an answer of {len(heard.text.split())} words, begun by one process and ended by another",
        f"what this client heard {'equals' if is_same else 'DIFFERS from'} what is stored",
        f"its connection broke {count(client.reconnects, 'time')}; it went on by itself",
        f"the tool with a side effect was called {count(len(notes), 'time')}",
    ):
        console.print(Text(f"  · {line}"))
    return killed is not None and is_same and len(notes) == 1


async def attend(cluster: Cluster, client: Client, thread: str) -> None:
    """Kill the node that answers with every line that is read, until the input ends or for ever.
    If no node answers, ask again instead."""
    lines = StdinLines()
    async with asyncio.TaskGroup() as group:
        with suppress(EOFError):
            while True:
                await lines.read_line()
                if await cluster.kill_answering(thread):
                    group.create_task(cluster.recover(thread))
                else:
                    await client.ask(thread, QUESTION)
                    cluster.note("? the question was asked again", "dim")
        await asyncio.Event().wait()
