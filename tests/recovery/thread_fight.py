"""Processes that want the same thread at the same time, again and again.

    python tests/recovery/thread_fight.py --rounds 1000
    python tests/recovery/thread_fight.py --scenario letters --rounds 300
    python tests/recovery/thread_fight.py --postgres --nats

`turns`: in every round two processes ask for a turn at once. One waits or is refused, as asked;
there is never more than one that runs, and every message that was taken is in the log, once.

`letters`: in every round four processes ask for a turn, and all of them wait for theirs. Meanwhile
each writes letters to the thread's live run, whichever process has it. Everything the agent reads,
it pays for, once: every letter that was taken is in the log once, and is paid for once.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from crash_ground import Site, add_options, ground_of
from crash_life import fork, wait

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.codec import dumps, loads
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.errors import ThreadAlreadyRunning
from awaken.testing import FunctionModel, text_response, tool_call_response
from awaken.testing.chaos import EffectLog, Note, NoteKind, ThreadDump, damage_between, dump_thread

LONGEST = 300
"""Seconds a fighter may take for all of its rounds, and one more for each of them."""
ROUNDS_A_THREAD = 25
LETTERS = 3
"""How many letters a fighter writes in a round."""
FIGHTERS = {"turns": ("ann", "bob"), "letters": ("ann", "bob", "cyd", "dan")}


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """A round, as both are told of it; and what one of them has to say afterwards."""

    number: int
    when_busy: Literal["queue", "refuse"]
    letters: bool = False
    fighter: str = ""
    accepted: bool = False
    taken: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def thread(self) -> str:
        return f"t{self.number // ROUNDS_A_THREAD}"

    @property
    def text(self) -> str:
        return f"{self.fighter} in round {self.number}"


# -- a fighter --------------------------------------------------------------------------------


def worker(effect_log: EffectLog) -> Agent:
    @tool
    async def work(ctx: ToolCallContext) -> str:
        """Be busy for a moment."""
        thread = ctx.run_identity.thread_id
        effect_log.note(NoteKind.START, thread, ctx.idempotency_key)
        await asyncio.sleep(0.001)
        effect_log.note(NoteKind.END, thread, ctx.idempotency_key)
        return "worked"

    def answer(request: InferenceRequest) -> StreamResult:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return text_response("done")
        return tool_call_response("", "work", "c1", {})

    return Agent("worker", model=FunctionModel(answer), tools=[work])


def payer(effect_log: EffectLog) -> Agent:
    """An agent that pays for everything it has read and not paid for, one thing after another."""

    @tool
    async def pay(ctx: ToolCallContext, text: str) -> str:
        """Pay for something."""
        effect_log.note(NoteKind.START, text, ctx.idempotency_key)
        await asyncio.sleep(0.001)
        effect_log.note(NoteKind.END, text, ctx.idempotency_key)
        return "paid"

    def answer(request: InferenceRequest) -> StreamResult:
        read = Counter(m.text() for m in request.messages if m.is_visible_user())
        calls = [call for m in request.messages for call in m.tool_calls or ()]
        unpaid = read - Counter(call.arguments["text"] for call in calls)
        if not unpaid:
            return text_response("all is paid for")
        return tool_call_response("", "pay", f"c{len(calls)}", {"text": next(iter(unpaid))})

    return Agent("payer", model=FunctionModel(answer), tools=[pay])


async def fight(name: str, home: Path, site: Site, ring: socket.socket) -> None:
    """Take part in every round that is announced, until an empty line."""
    effect_log = EffectLog(home / "effect_log")
    lines = ring.makefile("rb")
    agents = [worker(effect_log), payer(effect_log)]
    async with Runtime(agents, store=site.store, bus=site.bus, recover=False) as runtime:
        while (line := await asyncio.to_thread(lines.readline)) != b"\n":
            now = msgspec.structs.replace(loads(line, Round), fighter=name)
            now = await (write_letters if now.letters else take_a_turn)(runtime, now)
            ring.sendall(dumps(now) + b"\n")


async def take_a_turn(runtime: Runtime, now: Round) -> Round:
    try:
        await runtime.run("worker", now.text, thread=now.thread, when_busy=now.when_busy)
    except ThreadAlreadyRunning:
        return now
    return msgspec.structs.replace(now, accepted=True)


async def write_letters(runtime: Runtime, now: Round) -> Round:
    """Wait for a turn, and meanwhile write to whichever run is live."""
    letters: dict[bool, list[str]] = {True: [], False: []}
    async with asyncio.TaskGroup() as group:
        group.create_task(runtime.run("payer", now.text, thread=now.thread, when_busy="queue"))
        for number in range(LETTERS):
            await asyncio.sleep(0.01)
            letter = f"letter {number} of {now.text}"
            letters[await runtime.send(now.thread, letter)].append(letter)
    return msgspec.structs.replace(
        now, accepted=True, taken=tuple(letters[True]), refused=tuple(letters[False])
    )


# -- the ring ---------------------------------------------------------------------------------


def hold(scenario: str, rounds: int, home: Path, site: Site) -> list[Round]:
    """Let the processes fight; returns what each of them said of each round."""
    corners: list[tuple[int, socket.socket, BinaryIO]] = []
    for name in FIGHTERS[scenario]:
        mine, theirs = socket.socketpair()
        pid = fork(partial(fight, name, home, site, theirs), home / "errors", LONGEST + rounds)
        corners.append((pid, mine, mine.makefile("rb")))
    said = []
    for announced in announcements(scenario, rounds):
        for _, ring, _ in corners:
            ring.sendall(dumps(announced) + b"\n")
        said += [loads(answers.readline(), Round) for _, _, answers in corners]
    for pid, ring, _ in corners:
        ring.sendall(b"\n")
        code = wait(pid)
        assert code == 0, f"a fighter ended with {code}:\n{(home / 'errors').read_text()}"
    if scenario == "letters":
        asyncio.run(read_the_rest(home, site, {now.thread for now in said}))
    return said


def announcements(scenario: str, rounds: int) -> Iterator[Round]:
    letters = scenario == "letters"
    for number in range(rounds):
        queue = letters or number % 2
        yield Round(number=number, when_busy="queue" if queue else "refuse", letters=letters)


async def read_the_rest(home: Path, site: Site, threads: Iterable[str]) -> None:
    """Let each thread's agent read what came too late for its last run."""
    agent = payer(EffectLog(home / "effect_log"))
    async with Runtime([agent], store=site.store, bus=site.bus, recover=False) as runtime:
        for thread in threads:
            await runtime.run("payer", f"the end of {thread}", thread=thread)


def faults(said: Sequence[Round], home: Path, site: Site) -> Iterator[str]:
    """Everything that should not be."""
    for number in {now.number for now in said}:
        taken = [now.accepted for now in said if now.number == number]
        queued = number % 2 or any(now.letters for now in said)
        wanted = len(taken) if queued else 1
        if sum(taken) < wanted:
            yield f"round {number}: {sum(taken)} of {wanted} were let in"
    notes = EffectLog(home / "effect_log").notes()
    for first, second in pairwise(notes):
        if first.kind is NoteKind.START and (second.kind, second.key) != (NoteKind.END, first.key):
            yield f"two were at work at once: {first.key} and {second.key}"
    for thread in {now.thread for now in said}:
        dump = asyncio.run(_dump(site, thread))
        mine = [now for now in said if now.thread == thread]
        yield from _unlike(mine, dump)
        yield from _unpaid(mine, notes)
        yield from damage_between((), dump, (), ()).sentences()


def _unlike(said: Sequence[Round], dump: ThreadDump) -> Iterator[str]:
    """Messages that were taken and are not there once, or were refused and are there."""
    found = Counter(message.text() for message in dump.messages if message.is_visible_user())
    for text, taken in [said_of for now in said for said_of in _texts(now)]:
        if found[text] != int(taken):
            verb = "taken" if taken else "refused"
            yield f"{text!r} was {verb} and is in the log {found[text]} times"


def _unpaid(said: Sequence[Round], notes: Sequence[Note]) -> Iterator[str]:
    """What was taken to be paid for, and was not paid for once."""
    paid = Counter(note.name for note in notes if note.kind is NoteKind.END)
    for text, taken in [said_of for now in said if now.letters for said_of in _texts(now)]:
        if paid[text] != int(taken):
            yield f"{text!r} was paid for {paid[text]} times"


def _texts(now: Round) -> Iterator[tuple[str, bool]]:
    """All a fighter has written in a round, and whether that was taken."""
    yield now.text, now.accepted
    yield from ((letter, True) for letter in now.taken)
    yield from ((letter, False) for letter in now.refused)


async def _dump(site: Site, thread: str) -> ThreadDump:
    store = site.open()
    await store.open()
    try:
        return await dump_thread(store, thread)
    finally:
        await store.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Processes fight for one thread.")
    parser.add_argument("--scenario", choices=tuple(FIGHTERS), default="turns")
    parser.add_argument("--rounds", type=int, default=1_000)
    add_options(parser)
    options = parser.parse_args(arguments)
    with ground_of(options) as ground, tempfile.TemporaryDirectory(prefix="awaken-fight-") as name:
        home = Path(name)
        site = ground.at(home)
        said = hold(options.scenario, options.rounds, home, site)
        found = list(faults(said, home, site))
    for fault in found:
        print(fault)
    taken = sum(now.accepted for now in said)
    print(
        f"rounds {options.rounds}, turns taken {taken}, turns refused {len(said) - taken}, "
        f"letters taken {sum(len(now.taken) for now in said)}, "
        f"letters refused {sum(len(now.refused) for now in said)}, faults {len(found)}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
