"""LangGraph with its SQLite checkpointer, each step written before the next one begins."""

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pydantic import Field

from benchmarks.durable.disk import KB, MB, MS, Disk
from benchmarks.durable.figures import PEER_SIZES, SIZE, SMALL_STEPS, growth_of
from benchmarks.measure import build
from benchmarks.peers.langgraph import QUESTION, StepModel, answer, call, graph_of, tool
from benchmarks.work import Tally

STEPS, REPEAT = 10, 3


class MeteredModel(StepModel):
    """Wants `count` steps, and takes a reading when it is asked first and last."""

    take: object
    asked: int = 0
    readings: list = Field(default_factory=list)

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        number = self.asked
        self.asked += 1
        if number in (0, self.count):
            self.readings.append(self.take())
        return answer([call(number)] if number < self.count else [])


async def step(path, size):
    """One step in a new thread that has `size` messages."""
    disk, config = Disk(path), config_of(STEPS)
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        model = MeteredModel(count=STEPS, take=disk.take)
        graph = graph_of(model, [tool(Tally())], saver)
        await graph.aupdate_state(config, {"messages": history(size)})
        disk.settle()
        await graph.ainvoke(QUESTION, config, durability="sync")
    first, last = model.readings
    return last.since(first).of(STEPS)


def config_of(steps):
    return {"configurable": {"thread_id": str(uuid4())}, "recursion_limit": 3 * steps}


def history(size):
    """Turns of four messages: a question, a call, its result, an answer."""
    turns = (
        [
            HumanMessage("go", id=f"q{number}"),
            AIMessage("", id=f"a{number}", tool_calls=[call(number)]),
            ToolMessage("1", id=f"t{number}", tool_call_id=f"c{number}"),
            AIMessage("done", id=f"d{number}"),
        ]
        for number in range(size // 4)
    )
    return [message for turn in turns for message in turn]


async def file_size(path):
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        graph = graph_of(StepModel(count=SMALL_STEPS), [tool(Tally())], saver)
        await graph.ainvoke(QUESTION, config_of(SMALL_STEPS), durability="sync")
    return Disk(path).size()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=REPEAT)
    repeat = min(parser.parse_args().repeat, REPEAT)
    samples = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(repeat):
            for size in PEER_SIZES:
                found = asyncio.run(step(folder / f"{size}.db", size))
                # Its log wraps around within a few steps, so only the disk's own count tells.
                values = {
                    "cpu": found.cpu * MS,
                    "wall": found.wall * MS,
                    "disk": found.written * KB,
                }
                for kind, value in values.items():
                    samples.setdefault(growth_of(kind, size).key, []).append(value)
        samples[SIZE.key] = [asyncio.run(file_size(folder / "size.db")) * MB]
    print(json.dumps({"python": build(), "imports": "", "samples": samples, "reasons": {}}))


if __name__ == "__main__":
    main()
