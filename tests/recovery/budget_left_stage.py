"""A process in which a delegate is stopped by its budget, with an agent still queued behind it."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from awaken import Agent, Runtime, tool
from awaken.core.budget import Budget
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.ext.tasks import BackgroundLimits, BackgroundTaskPlugin, background
from awaken.testing import FunctionModel, tool_calls_response

STEPS = 8
THREAD = "t"
PROMPT = {"prompt": "walk"}


class Stage:
    """An agent, its delegate, and who that one has left in the background: they go on when they
    are let."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()
        self.may_lead, self.may_dig = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def hold() -> str:
            """Say that the delegate is over, and wait."""
            self.waits.set()
            await self.may_lead.wait()
            return "held"

        @tool(effect="read")
        async def dig() -> str:
            """Keep the only place there is in the background."""
            await self.may_dig.wait()
            return "dug"

        @tool(effect="read")
        async def look() -> str:
            """Look around."""
            return "nothing"

        def lead(request: InferenceRequest) -> StreamResult:
            made = sum(message.role is Role.ASSISTANT for message in request.messages)
            if made == 0:
                return tool_calls_response("", ("agent_run_helper", "h", PROMPT))
            name = "hold" if made == 1 else "look"
            return tool_calls_response("", (name, f"c{made}", {}))

        def help(request: InferenceRequest) -> StreamResult:
            calls = tool_calls_response("", ("dig", "d", {}), ("agent_run_walker", "w", PROMPT))
            return msgspec.structs.replace(calls, usage=TokenUsage(prompt_tokens=3_000))

        def walk(request: InferenceRequest) -> StreamResult:
            made = sum(message.role is Role.ASSISTANT for message in request.messages)
            calls = tool_calls_response("", ("look", f"l{made}", {}))
            return msgspec.structs.replace(calls, usage=TokenUsage(prompt_tokens=10))

        plugin = BackgroundTaskPlugin(limits=BackgroundLimits(per_thread=1))
        self.walker = Agent("walker", model=FunctionModel(walk), tools=[look], max_rounds=0)
        self.helper = Agent(
            "helper",
            model=FunctionModel(help),
            tools=[background(dig)],
            background=[self.walker],
            plugins=[plugin],
            # Enough for one question of this length, and for many short ones.
            system_prompt="Go on. " * 1_000,
            budget=Budget(tokens=5_000),
        )
        self.lead = Agent(
            "lead",
            model=FunctionModel(lead),
            tools=[hold, look],
            delegates=["helper"],
            max_rounds=0,
        )


async def main(address: str) -> None:
    stage = Stage()
    agents = [stage.lead, stage.helper, stage.walker]
    async with Runtime(agents, store=address) as runtime, asyncio.TaskGroup() as group:
        budget = Budget(steps=STEPS)
        group.create_task(runtime.run("lead", "go", thread=THREAD, budget=budget))
        await stage.waits.wait()
        print("waits", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
