"""Agno: an `Agent` on a `Model` of our own."""

import asyncio
from contextlib import asynccontextmanager

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.run.agent import RunEvent

from benchmarks.measure import main
from benchmarks.work import DELTA


class StepModel(Model):
    def __init__(self, count, delay=0.0):
        super().__init__(id="steps", name="steps", provider="bench")
        self.count, self.delay = count, delay

    async def ainvoke(self, messages, **kwargs):
        if self.delay:
            await asyncio.sleep(self.delay)
        step = len(messages) // 2
        return answer([call(step)] if step < self.count else [])

    async def ainvoke_stream(self, messages, **kwargs):
        for _ in range(self.count):
            yield ModelResponse(role="assistant", content=DELTA)

    def invoke(self, *args, **kwargs):
        raise NotImplementedError

    invoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke


class CallsModel(StepModel):
    async def ainvoke(self, messages, **kwargs):
        first = len(messages) == 1
        return answer([call(n) for n in range(self.count)] if first else [])


class Agno:
    name = "agno"
    imports = "from agno.agent import Agent"

    @asynccontextmanager
    async def steps(self, count, delay, tally):
        agent = Agent(model=StepModel(count, delay), tools=[tool(tally)], telemetry=False)
        yield lambda: agent.arun("go")

    @asynccontextmanager
    async def deltas(self, count, tally):
        agent = Agent(model=StepModel(count), telemetry=False)

        async def run():
            async for event in agent.arun("go", stream=True):
                tally.count += event.event == RunEvent.run_content and event.content == DELTA

        yield run

    @asynccontextmanager
    async def calls(self, count, tally):
        agent = Agent(model=CallsModel(count), tools=[tool(tally)], telemetry=False)
        yield lambda: agent.arun("go")


def answer(calls):
    return ModelResponse(role="assistant", content=None if calls else "done", tool_calls=calls)


def call(number):
    arguments = f'{{"a": {number}, "b": 1}}'
    return {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "add", "arguments": arguments},
    }


def tool(tally):
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        tally.count += 1
        return a + b

    return add


if __name__ == "__main__":
    main(Agno())
