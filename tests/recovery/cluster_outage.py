"""Postgres is stopped and started again under the runs of three nodes: they wait, and go on where
they are.

python tests/recovery/cluster_outage.py --runs 100

Half of the runs are in a call when the database goes away, so that the next commit finds none. The
others commit step after step, so that the answers of some commits are lost.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.value import Value
from awaken.errors import CommitUnknown
from awaken.stores.postgres import PostgresStore
from awaken.testing import FunctionModel, text_response, tool_call_response
from postgres_kit import Postgres, running_postgres

CALLS = 4
NODES = 3
HOW = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class Figures(Value, frozen=True, kw_only=True):
    """What came of one outage."""

    ended: int
    doubled: int
    asked_again: int
    moved: int
    """How many threads were claimed more than once."""
    unknown: int
    """How many answers of commits were lost."""


class CountingStore(PostgresStore):
    """Counts the commits whose answers were lost."""

    unknown = 0

    async def commit(self, commit: ThreadCommit) -> Committed:
        try:
            return await super().commit(commit)
        except CommitUnknown:
            self.unknown += 1
            raise


async def outage(server: Postgres, *, runs: int, seconds: float, how: str) -> Figures:
    made: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    away, waiting = asyncio.Event(), set[str]()

    def is_busy(thread_id: str) -> bool:
        return int(thread_id[1:]) % 2 == 0

    @tool
    async def work(number: int, ctx: ToolCallContext) -> str:
        """Count this call."""
        made[ctx.idempotency_key] += 1
        if number == 1 and not is_busy(ctx.run_identity.thread_id):
            waiting.add(ctx.run_identity.thread_id)
            await away.wait()
        return f"worked {number}"

    def answer(request: InferenceRequest) -> StreamResult:
        told = [message for message in request.messages if message.role is Role.TOOL]
        key = request.routing_key
        assert key is not None
        asked[f"{key.run_id} {len(told)}"] += 1
        if len(told) >= CALLS and (away.is_set() or not is_busy(key.thread_id or "")):
            return text_response("done")
        return tool_call_response("", "work", f"c{len(told)}", {"number": len(told)})

    agent = Agent("worker", model=FunctionModel(answer), tools=[work], max_rounds=100_000)
    address = server.address()
    stores = [CountingStore(address) for _ in range(NODES)]
    async with AsyncExitStack() as stack:
        nodes = []
        for store in stores:
            stack.push_async_callback(store.close)
            nodes.append(await stack.enter_async_context(Runtime([agent], store=store)))

        async def run(number: int) -> str:
            result = await nodes[number % NODES].run("worker", "work", thread=f"t{number}")
            return result.response

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(run(number)) for number in range(runs)]
            while len(waiting) < runs // 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.to_thread(server.stop, HOW[how])
            away.set()  # the calls end, and their commits find no database
            await asyncio.sleep(seconds)
            await asyncio.to_thread(server.start)
        ended = sum(task.result() == "done" for task in running)
        moved = 0
        for number in range(runs):
            # The next claim has the epoch after that of the run's own.
            fence = await stores[0].claim(f"t{number}", at_ms=1)
            moved += fence.epoch != 2
    return Figures(
        ended=ended,
        doubled=sum(count - 1 for count in made.values()),
        asked_again=sum(count - 1 for count in asked.values()),
        moved=moved,
        unknown=sum(store.unknown for store in stores),
    )


async def main(runs: int) -> int:
    wrong = unknown = 0
    for seconds in (1.0, 5.0, 20.0):
        for how in HOW:
            with running_postgres() as server:
                figures = await outage(server, runs=runs, seconds=seconds, how=how)
            print(f"{how}, away for {seconds:g} s: {figures}", flush=True)
            wrong += runs - figures.ended + figures.doubled + figures.asked_again + figures.moved
            unknown += figures.unknown
    return int(wrong > 0 or unknown == 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    sys.exit(asyncio.run(main(parser.parse_args().runs)))
