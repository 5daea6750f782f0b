"""Microsoft Agent Framework: an `Agent` on a chat client of the usual layers."""

import asyncio
from contextlib import asynccontextmanager

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
)
from agent_framework import tool as as_tool
from agent_framework.observability import ChatTelemetryLayer

from benchmarks.measure import main
from benchmarks.work import DELTA


class Client(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):
    """Layered as the library's own clients are."""

    def __init__(self, count, delay=0.0):
        limit = {"max_iterations": count + 1}  # the default stops after 40
        super().__init__(function_invocation_configuration=limit)
        self.count, self.delay = count, delay

    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        if stream:
            return self._build_response_stream(self.pieces())
        return self.answer(messages)


class StepClient(Client):
    async def answer(self, messages):
        if self.delay:
            await asyncio.sleep(self.delay)
        step = len(messages) // 2
        return response([call(step)] if step < self.count else ["done"])


class CallsClient(Client):
    async def answer(self, messages):
        first = len(messages) == 1
        return response([call(n) for n in range(self.count)] if first else ["done"])


class DeltaClient(Client):
    async def pieces(self):
        for _ in range(self.count):
            yield ChatResponseUpdate(contents=[Content.from_text(DELTA)], role="assistant")


class AgentFramework:
    name = "agent-framework"
    imports = "from agent_framework import Agent"

    @asynccontextmanager
    async def steps(self, count, delay, tally):
        agent = Agent(StepClient(count, delay), tools=[tool(tally)])
        yield lambda: agent.run("go")

    @asynccontextmanager
    async def deltas(self, count, tally):
        agent = Agent(DeltaClient(count))

        async def run():
            async for update in agent.run("go", stream=True):
                tally.count += update.text == DELTA

        yield run

    @asynccontextmanager
    async def calls(self, count, tally):
        agent = Agent(CallsClient(count), tools=[tool(tally)])
        yield lambda: agent.run("go")


def response(contents):
    return ChatResponse(messages=[Message(role="assistant", contents=contents)], response_id="r")


def call(number):
    return Content.from_function_call(f"c{number}", "add", arguments=f'{{"a": {number}, "b": 1}}')


def tool(tally):
    @as_tool(approval_mode="never_require")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        tally.count += 1
        return a + b

    return add


if __name__ == "__main__":
    main(AgentFramework())
