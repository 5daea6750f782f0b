"""Postgres is stopped and started again under runs: they wait, and go on where they are.

python tests/recovery/cluster_outage.py --runs 100
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.contract.llm import InferenceRequest
from awaken.domain.inference import StreamResult
from awaken.domain.message import Role
from awaken.domain.value import Value
from awaken.testing import FunctionModel, text_response, tool_call_response
from postgres_kit import Postgres, running_postgres

CALLS = 4
HOW = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class Figures(Value, frozen=True, kw_only=True):
    """What came of one outage."""

    ended: int
    doubled: int
    asked_again: int
    moved: int
    """How many threads were claimed more than once."""


async def outage(server: Postgres, *, runs: int, seconds: float, how: str) -> Figures:
    made: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    started, back = asyncio.Event(), asyncio.Event()

    @tool
    async def work(number: int, ctx: ToolCallContext) -> str:
        """Count this call."""
        made[ctx.idempotency_key] += 1
        if number == 1:
            started.set()
            await back.wait()
        return f"worked {number}"

    def answer(request: InferenceRequest) -> StreamResult:
        told = [message for message in request.messages if message.role is Role.TOOL]
        key = request.routing_key
        asked[f"{key.run_id if key is not None else ''} {len(told)}"] += 1
        if len(told) >= CALLS:
            return text_response("done")
        return tool_call_response("", "work", f"c{len(told)}", {"number": len(told)})

    agent = Agent("worker", model=FunctionModel(answer), tools=[work])
    async with Runtime([agent], store=server.address()) as runtime:

        async def run(number: int) -> str:
            result = await runtime.run("worker", "work", thread=f"t{number}")
            return result.response

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(run(number)) for number in range(runs)]
            await started.wait()
            await asyncio.to_thread(server.stop, HOW[how])
            back.set()  # the calls end, and their commits find no database
            await asyncio.sleep(seconds)
            await asyncio.to_thread(server.start)
        ended = sum(task.result() == "done" for task in running)
        moved = 0
        for number in range(runs):
            # The next claim has the epoch after that of the run's own.
            fence = await runtime.store.claim(f"t{number}", at_ms=1)
            moved += fence.epoch != 2
    return Figures(
        ended=ended,
        doubled=sum(count - 1 for count in made.values()),
        asked_again=sum(count - 1 for count in asked.values()),
        moved=moved,
    )


async def main(runs: int) -> int:
    wrong = 0
    for seconds in (1.0, 5.0, 20.0):
        for how in HOW:
            with running_postgres() as server:
                figures = await outage(server, runs=runs, seconds=seconds, how=how)
            print(f"{how}, away for {seconds:g} s: {figures}", flush=True)
            wrong += runs - figures.ended + figures.doubled + figures.asked_again + figures.moved
    return int(wrong > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    sys.exit(asyncio.run(main(parser.parse_args().runs)))
