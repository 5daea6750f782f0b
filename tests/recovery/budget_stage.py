"""A process whose agent in the background holds all that is left of a budget, and never ends."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from awaken import Agent, Runtime, tool
from awaken.core.budget import Budget
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.llm import InferenceRequest
from awaken.testing import FunctionModel, text_response, tool_call_response

TOKENS = 3_000
THREAD = "t"
USAGE = TokenUsage(prompt_tokens=100, completion_tokens=20)


def calls(name: str, **args: str) -> StreamResult:
    return msgspec.structs.replace(tool_call_response("", name, name, args), usage=USAGE)


def agents(may_think: asyncio.Event) -> list[Agent]:
    @tool(effect="read")
    async def wait() -> str:
        """Wait until the other one is done for now."""
        await may_think.wait()
        return "go on"

    async def think(request: InferenceRequest) -> StreamResult:
        if len(request.messages) == 1:
            return calls("wait")
        print("thinks", flush=True)
        await asyncio.Event().wait()
        raise AssertionError("it thinks for ever")

    def lead(request: InferenceRequest) -> StreamResult:
        if len(request.messages) == 1:
            return calls("agent_run_thinker", prompt="think")
        return text_response("well", USAGE)

    thinker = Agent("thinker", model=FunctionModel(think), tools=[wait])
    budget = Budget(tokens=TOKENS)
    return [Agent("lead", model=FunctionModel(lead), background=[thinker], budget=budget), thinker]


async def main(address: str) -> None:
    may_think = asyncio.Event()
    async with Runtime(agents(may_think), store=address) as runtime:
        await runtime.run("lead", "go", thread=THREAD)
        may_think.set()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
