"""A process that asks for runs at the same moment as another one, and says what it got."""

from __future__ import annotations

import asyncio
import sys
from typing import Literal

import msgspec

from awaken import Agent, Runtime, tool
from awaken.codec import dumps, loads
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.testing import FunctionModel, text_response, tool_call_response


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask for; with `error`, what came of it."""

    thread: str
    text: str
    when_busy: Literal["queue", "refuse"]
    error: str = ""
    words: str = ""


def payer() -> Agent:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def answer(request: InferenceRequest) -> StreamResult:
        last = request.messages[-1]
        if last.role is Role.USER and last.text() == "pay":
            return tool_call_response("", "pay", "c", {})
        return text_response("done")

    return Agent("payer", model=FunctionModel(answer), tools=[pay])


async def main(address: str) -> None:
    """Ask for every line that comes in."""
    async with Runtime([payer()], store=address, recover=False) as runtime:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            ask = loads(line.encode(), Ask)
            try:
                await runtime.run("payer", ask.text, thread=ask.thread, when_busy=ask.when_busy)
            except Exception as error:
                ask = msgspec.structs.replace(ask, error=type(error).__name__, words=str(error))
            print(dumps(ask).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
