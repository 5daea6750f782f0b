"""What a context policy costs: `python -m benchmarks.context`.

A turn of a conversation, and a step of a run, in threads of different lengths, with a window of
`LIMIT` tokens and summaries; CPU time of this process, scripted model, store in memory. `largest`
is the longest request, by our own estimate, beside what the policy allows.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from statistics import median

from awaken import Agent, Message, Runtime, tool
from awaken.core.inference import ContextWindowPolicy
from awaken.core.llm import InferenceRequest, LlmStreamEvent
from awaken.core.store.commits import ThreadCommit
from awaken.core.window import DEFAULT_COUNTER
from awaken.ext.compaction import COMPACTION
from awaken.stores.memory import MemoryStore
from awaken.testing import stream_of, text_response, tool_call_response

LENGTHS = (100, 1_000, 10_000)
LIMIT, OUTPUT = 8_000, 1_000
TURNS, STEPS = 100, 200
TEXT = "word " * 20
POLICY = ContextWindowPolicy.of(LIMIT, max_output_tokens=OUTPUT, compact_at=0.8)


class Model:
    """Calls a tool so often in each run, then answers; summarises when it has no tools."""

    name = "scripted"

    def __init__(self, calls: int = 0, *, measures: bool = False) -> None:
        self.calls = self._left = calls
        self.measures = measures
        self.largest = 0

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        answer = text_response("They talked. " * 20)
        if request.tools:
            if self.measures:
                size = sum(DEFAULT_COUNTER.message(message) for message in request.messages)
                self.largest = max(self.largest, size)
            answer = text_response(TEXT)
            if self._left:
                self._left -= 1
                answer = tool_call_response("", "look", f"c{self._left}", {})
            else:
                self._left = self.calls
        for event in stream_of(answer):
            yield event


@tool(effect="read")
async def look() -> str:
    """Look around."""
    return TEXT


async def opened(model: Model, length: int, policy: ContextWindowPolicy | None) -> Runtime:
    """A runtime whose thread `t` has so many messages, as if it had always had this agent."""
    store = MemoryStore()
    agent = Agent("a", model=model, tools=[look], max_rounds=0, context_policy=policy)
    makers = (Message.user, Message.assistant)
    log = tuple(makers[n % 2](f"{n} {TEXT}") for n in range(length))
    await store.commit(ThreadCommit(thread_id="t", expected_length=0, messages=log))
    return Runtime([agent], store=store)


async def turns(model: Model, length: int, policy: ContextWindowPolicy | None) -> tuple[float, int]:
    """Microseconds a turn, and how many summaries were made."""
    async with await opened(model, length, policy) as runtime:
        took: list[float] = []
        for number in range(TURNS):
            begun = time.process_time()
            await runtime.run("a", f"{number} {TEXT}", thread="t")
            took.append(time.process_time() - begun)
            await asyncio.sleep(0)
        state = (await runtime.engine.store.load_thread_state("t")).extensions
        known = state.get(COMPACTION.name)
        made = COMPACTION.load(known).total_compactions if known is not None else 0
    return median(took) * 1e6, made


async def steps(length: int, policy: ContextWindowPolicy | None) -> float:
    """Microseconds a step of one run; its beginning is not counted."""
    took: list[float] = []
    for calls in (1, STEPS + 1):
        model = Model(calls)
        async with await opened(model, length, policy) as runtime:
            begun = time.process_time()
            await runtime.run("a", "go", thread="t")
            took.append(time.process_time() - begun)
    return (took[1] - took[0]) / STEPS * 1e6


async def largest(length: int, policy: ContextWindowPolicy | None) -> int:
    """The longest request of many turns, some of many steps; to measure them takes time itself."""
    model = Model(3, measures=True)
    await turns(model, length, policy)
    return model.largest


async def main() -> None:
    print(f"{'':24}{'messages':>10}{'µs a turn':>12}{'µs a step':>12}{'largest':>10}{'limit':>8}")
    for name, policy in (("with a policy", POLICY), ("without", None)):
        for length in LENGTHS:
            gc.collect()
            turn, made = await turns(Model(), length, policy)
            step, most = await steps(length, policy), await largest(length, policy)
            limit = LIMIT - OUTPUT if policy else 0
            row = f"{name:24}{length:>10}{turn:>12.0f}{step:>12.0f}{most:>10}"
            note = f"   {made} summaries" if made else ""
            print(f"{row}{limit or '':>8}{note}")


if __name__ == "__main__":
    asyncio.run(main())
