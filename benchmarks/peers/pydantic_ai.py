"""Pydantic AI: an `Agent` on its own `FunctionModel`."""

import asyncio
from contextlib import asynccontextmanager

from pydantic_ai import Agent, ModelResponse, RequestUsage, TextPart, ToolCallPart, UsageLimits
from pydantic_ai.models.function import FunctionModel

from benchmarks.measure import main
from benchmarks.work import DELTA

UNLIMITED = UsageLimits(request_limit=None)  # the default stops after 50 requests


class PydanticAI:
    name = "pydantic-ai"
    imports = "from pydantic_ai import Agent"

    @asynccontextmanager
    async def steps(self, count, delay, tally):
        async def model(messages, info):
            if delay:
                await asyncio.sleep(delay)
            step = len(messages) // 2
            return answer([call(step)] if step < count else [TextPart("done")])

        agent = Agent(FunctionModel(model), tools=[tool(tally)])
        yield lambda: agent.run("go", usage_limits=UNLIMITED)

    @asynccontextmanager
    async def deltas(self, count, tally):
        async def model(messages, info):
            for _ in range(count):
                yield DELTA

        agent = Agent(FunctionModel(stream_function=model))

        async def run():
            async with agent.run_stream("go") as result:
                async for _ in result.stream_text(delta=True, debounce_by=None):
                    tally.count += 1

        yield run

    @asynccontextmanager
    async def calls(self, count, tally):
        async def model(messages, info):
            first = len(messages) == 1
            return answer([call(n) for n in range(count)] if first else [TextPart("done")])

        agent = Agent(FunctionModel(model), tools=[tool(tally)])
        yield lambda: agent.run("go")


def answer(parts):
    # With its usage given, the model does not estimate it from the whole conversation.
    return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=10, output_tokens=5))


def call(number):
    return ToolCallPart("add", f'{{"a": {number}, "b": 1}}', tool_call_id=f"c{number}")


def tool(tally):
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        tally.count += 1
        return a + b

    return add


if __name__ == "__main__":
    main(PydanticAI())
