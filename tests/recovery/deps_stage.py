"""A process that is killed while a tool of a run with dependencies works."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass

from awaken import Agent, RunContext, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Text
from awaken.testing import FunctionModel, text_response, tool_call_response

THREAD = "t"


@dataclass
class Bank:
    """The name is not for the log."""

    secret: str
    customer: int


@dataclass
class Till:
    customer: int


def answer(request: InferenceRequest) -> StreamResult:
    last = request.messages[-1]
    if last.tool_call_id:
        (prompt,) = request.system
        assert isinstance(prompt, Text)
        return text_response(f"{prompt.text} {last.text()}")
    name = request.tools[0].id
    arguments = {"prompt": "go"} if name.startswith("agent_run") else {}
    return tool_call_response("", name, "c", arguments)


def agents(*, deadly: bool) -> list[Agent[Bank]]:
    """A bank that delegates to a clerk, whose tool reads its dependencies."""

    @tool(effect="read")
    async def balance(ctx: RunContext[Till]) -> str:
        """The balance."""
        if deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"balance of {ctx.deps.customer}"

    clerk = Agent(
        "clerk",
        model=FunctionModel(answer),
        deps=Till,
        system_prompt=lambda ctx: f"till {ctx.deps.customer}:",
        tools=[balance],
    )

    async def prompt(ctx: object) -> str:
        return "bank:"

    bank = Agent(
        "bank",
        model=FunctionModel(answer),
        deps=Bank,
        system_prompt=prompt,
        delegates=[clerk.with_deps(lambda bank: Till(bank.customer))],
    )
    return [bank]


async def play(path: str) -> None:
    async with Runtime(agents(deadly=True), store=f"sqlite:///{path}") as runtime:
        deps = Bank("s3cret", 7)
        await runtime.run("bank", "go", thread=THREAD, deps=deps, deps_key=7, user="ann")


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1]))
