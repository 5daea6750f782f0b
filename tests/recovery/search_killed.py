"""Kills a process that keeps a search index, again and again, while threads are written.

    python tests/recovery/search_killed.py --kills 30 [--store ADDRESS]

Threads are written, copied, renamed, rewound and deleted meanwhile. At the end the index must be
equal to one that is built anew, row by row, but for the order of entries of one millisecond.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from awaken import Agent, Runtime
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.search.index import FoundEntry
from awaken.core.search.query import parse_search
from awaken.core.search.usage import UsageQuery
from awaken.core.thread import ThreadPatch
from awaken.runtime.search import indexer
from awaken.testing import FunctionModel, text_response

CHILD = """
import asyncio, sys
from awaken import Runtime
from awaken.runtime.search import indexer, service

indexer.LOOK_SECONDS = service.LOOK_SECONDS = 0.002
indexer.OWNER_SECONDS = 0.3
indexer._BATCH = 3

async def main():
    async with Runtime([], store=sys.argv[1], recover=False) as runtime:
        print("keeps", flush=True)
        await runtime.keep_search()

asyncio.run(main())
"""


def answer(request: InferenceRequest) -> StreamResult:
    return text_response(f"heard {request.messages[-1].text()}")


async def play(address: str, kills: int, seed: int) -> list[str]:
    """Returns what differs between the index and one that was built anew."""
    chance = random.Random(seed)
    indexer.OWNER_SECONDS = 0.3
    agent = Agent("desk", model=FunctionModel(answer))
    async with Runtime([agent], store=address) as runtime:
        writing = asyncio.ensure_future(write(runtime, chance))
        for _ in range(kills):
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CHILD, address, stdout=asyncio.subprocess.PIPE
            )
            assert child.stdout is not None
            await child.stdout.readline()
            await asyncio.sleep(chance.random() * 0.3)
            child.send_signal(signal.SIGKILL)
            await child.wait()
        writing.cancel()
        await asyncio.wait([writing])
        if not writing.cancelled():
            writing.result()
    # The writer's last run has been cancelled; it is at its end when its runtime is closed.
    async with Runtime([], store=address, recover=False) as runtime:
        service = runtime._searching()
        while not await service.update():  # noqa: ASYNC110 until the dead owner's time is over
            await asyncio.sleep(0.1)
        kept = await dump(runtime)
        await runtime.rebuild_search()
        anew = await dump(runtime)
        assert len(anew["runs mug"]) > kills, "nothing was written"
    return [
        f"{name}: {kept.get(name)!r:.300} instead of {anew.get(name)!r:.300}"
        for name in sorted({*kept, *anew})
        if kept.get(name) != anew.get(name)
    ]


async def write(runtime: Runtime, chance: random.Random) -> None:
    n = 0
    while True:
        n += 1
        thread = f"t{chance.randrange(12)}"
        await runtime.run("desk", f"mug {n} " + "word " * chance.randrange(3_000), thread=thread)
        match chance.randrange(12):
            case 0:
                await runtime.delete_thread(thread)
            case 1:
                await runtime.update_thread(thread, ThreadPatch(title=f"title {n}"))
            case 2:
                await runtime.update_thread(thread, ThreadPatch(labels={"n": str(n)}))
            case 3:
                await runtime.fork(thread, new=f"copy-{n}")
            case 4:
                said = [m for m in await runtime.messages(thread) if m.role.value == "user"]
                await runtime.run("desk", "edited", thread=thread, rewind_to=chance.choice(said).id)


async def dump(runtime: Runtime) -> Mapping[str, Any]:
    """All that an index has, by name."""
    index = runtime._searching()._index
    found: dict[str, Any] = dict(await index.list_heads("", None))
    for kind in ("runs", "threads"):
        for text in ("", "mug", "edited", "heard", "title*", "label:n", "agent:desk", "mug edited"):
            key: int | None = None
            entries: list[FoundEntry] = []
            while True:
                page = await index.find(
                    parse_search(text), scope=None, kind=kind, before_key=key, limit=200
                )
                entries += page.entries
                if (key := page.next_key) is None:
                    break
            found[f"{kind} {text}"] = sorted(
                (e.thread_id, e.run_id or "", e.agent, e.status, e.question, e.body)
                if kind == "runs"
                else (e.thread_id,)
                for e in entries
            )
    for by in (("day",), ("agent", "model"), ("user",)):
        found[f"sums {by}"] = await index.sum_usage(UsageQuery(by=by))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--store")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        address = given.store or f"sqlite:///{Path(folder) / 'a.db'}"
        damage = asyncio.run(play(address, given.kills, given.seed))
    print("\n".join(damage))
    print(f"seed {given.seed}, kills {given.kills}, differences {len(damage)}")
    sys.exit(1 if damage else 0)


if __name__ == "__main__":
    main()
