"""A process that is killed in the middle of an answer, and the next one that goes on with it.

Run as `half_an_answer.py DATABASE PLAN`, with what the model says before it falls silent: `text`,
`call` or `half-call`. It prints "kept" when what was said is on disk, and then waits to be killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from awaken import Agent, Runtime, tool
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.llm import InferenceRequest, LlmStreamEvent
from awaken.core.store.commits import Fence, StreamLogEntry
from awaken.engine import stream_log
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


FIRST: dict[str, list[LlmStreamEvent]] = {
    "text": [TextDelta(delta="Half of "), TextDelta(delta="the ")],
    "call": [
        TextDelta(delta="I add. "),
        ToolCallStart(id="a", name="add"),
        ToolCallDelta(id="a", args_delta='{"a": 1, "b": 2}'),
        ToolCallStart(id="b", name="add"),
        ToolCallDelta(id="b", args_delta='{"a": 3'),
    ],
    "half-call": [
        TextDelta(delta="I add"),
        ToolCallStart(id="a", name="add"),
        ToolCallDelta(id="a", args_delta='{"a": 1'),
    ],
}


class TellingStore(SqliteStore):
    """Says when a piece is on disk."""

    async def append_stream(self, fence: Fence, entry: StreamLogEntry) -> None:
        await super().append_stream(fence, entry)
        print("kept", flush=True)


async def _speak(plan: str) -> AsyncIterator[LlmStreamEvent]:
    for event in FIRST[plan]:
        yield event
    await asyncio.Event().wait()


async def main(database: str, plan: str) -> None:
    stream_log.KEPT_AT_LOOK = 1  # at the first look, a quarter of a second after it began

    def speak(_: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        return _speak(plan)

    store = TellingStore.from_address(f"sqlite:///{database}")
    await store.open()
    agent = Agent("a", model=FunctionModel(speak, name="m"), tools=[add])
    async with Runtime([agent], store=store) as runtime:
        await runtime.run("a", "go", thread="t")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
