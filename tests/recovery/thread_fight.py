"""Two processes that want the same thread at the same time, again and again.

    python tests/recovery/thread_fight.py --rounds 1000

In every round both ask for a turn at once. One waits or is refused, as asked; there is never more
than one that runs, and every message that was taken is in the log, once.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from crash_life import fork, wait

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.codec import dumps, loads
from awaken.contract.llm import InferenceRequest
from awaken.domain.inference import StreamResult
from awaken.domain.message import Role
from awaken.errors import ThreadAlreadyRunning
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_call_response
from awaken.testing.chaos import NoteKind, Picture, Witness, damage_between, picture_of

LONGEST = 300
ROUNDS_A_THREAD = 25
FIGHTERS = ("ann", "bob")


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """A round, as both are told of it; and what one of them has to say afterwards."""

    number: int
    when_busy: Literal["queue", "refuse"]
    fighter: str = ""
    accepted: bool = False

    @property
    def thread(self) -> str:
        return f"t{self.number // ROUNDS_A_THREAD}"

    @property
    def text(self) -> str:
        return f"{self.fighter} in round {self.number}"


# -- a fighter --------------------------------------------------------------------------------


def worker(witness: Witness) -> Agent:
    @tool
    async def work(ctx: ToolCallContext) -> str:
        """Be busy for a moment."""
        thread = ctx.run_identity.thread_id
        witness.note(NoteKind.START, thread, ctx.idempotency_key)
        await asyncio.sleep(0.001)
        witness.note(NoteKind.END, thread, ctx.idempotency_key)
        return "worked"

    def answer(request: InferenceRequest) -> StreamResult:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return text_response("done")
        return tool_call_response("", "work", "c1", {})

    return Agent("worker", model=FunctionModel(answer), tools=[work])


async def fight(name: str, home: Path, ring: socket.socket) -> None:
    """Take part in every round that is announced, until an empty line."""
    agent = worker(Witness(home / "witness"))
    address = f"sqlite:///{home / 'awaken.db'}"
    lines = ring.makefile("rb")
    async with Runtime([agent], store=address, recover=False) as runtime:
        while (line := await asyncio.to_thread(lines.readline)) != b"\n":
            now = msgspec.structs.replace(loads(line, Round), fighter=name)
            try:
                await runtime.run("worker", now.text, thread=now.thread, when_busy=now.when_busy)
                now = msgspec.structs.replace(now, accepted=True)
            except ThreadAlreadyRunning:
                pass
            ring.sendall(dumps(now) + b"\n")


# -- the ring ---------------------------------------------------------------------------------


def hold(rounds: int, home: Path) -> list[Round]:
    """Let two processes fight; returns what each of them said of each round."""
    corners: list[tuple[int, socket.socket, BinaryIO]] = []
    for name in FIGHTERS:
        mine, theirs = socket.socketpair()
        pid = fork(partial(fight, name, home, theirs), home / "errors", LONGEST)
        corners.append((pid, mine, mine.makefile("rb")))
    said = []
    for number in range(rounds):
        announced = Round(number=number, when_busy="queue" if number % 2 else "refuse")
        for _, ring, _ in corners:
            ring.sendall(dumps(announced) + b"\n")
        said += [loads(answers.readline(), Round) for _, _, answers in corners]
    for pid, ring, _ in corners:
        ring.sendall(b"\n")
        code = wait(pid)
        assert code == 0, f"a fighter ended with {code}:\n{(home / 'errors').read_text()}"
    return said


def faults(said: Sequence[Round], home: Path) -> Iterator[str]:
    """Everything that should not be."""
    for number in {now.number for now in said}:
        taken = [now.accepted for now in said if now.number == number]
        wanted = 2 if number % 2 else 1
        if sum(taken) < wanted:
            yield f"round {number}: {sum(taken)} of {wanted} were let in"
    notes = Witness(home / "witness").notes()
    for first, second in pairwise(notes):
        if first.kind is NoteKind.START and (second.kind, second.key) != (NoteKind.END, first.key):
            yield f"two were at work at once: {first.key} and {second.key}"
    for thread in {now.thread for now in said}:
        picture = asyncio.run(_picture(home, thread))
        mine = [now for now in said if now.thread == thread]
        yield from _unlike(mine, picture)
        yield from damage_between((), picture, (), ()).sentences()


def _unlike(said: Sequence[Round], picture: Picture) -> Iterator[str]:
    """Messages that were taken and are not there once, or were refused and are there."""
    found = Counter(message.text() for message in picture.messages if message.is_visible_user())
    for now in said:
        if found[now.text] != int(now.accepted):
            verb = "taken" if now.accepted else "refused"
            yield f"{now.text!r} was {verb} and is in the log {found[now.text]} times"


async def _picture(home: Path, thread: str) -> Picture:
    store = SqliteStore(home / "awaken.db")
    await store.open()
    try:
        return await picture_of(store, thread)
    finally:
        await store.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Two processes fight for one thread.")
    parser.add_argument("--rounds", type=int, default=1_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="awaken-fight-") as home:
        said = hold(options.rounds, Path(home))
        found = list(faults(said, Path(home)))
    for fault in found:
        print(fault)
    taken = sum(now.accepted for now in said)
    print(
        f"rounds {options.rounds}, turns taken {taken}, turns refused {len(said) - taken}, "
        f"faults {len(found)}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
