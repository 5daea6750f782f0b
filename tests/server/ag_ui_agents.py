"""Agents for the clients of the protocols to talk to: what the user says is what happens."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

from awaken import Agent, tool
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason, StreamResult, TokenUsage
from awaken.core.llm import ContentFiltered, InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Message, Role, Text, Thinking, ToolCall
from awaken.core.state.command import Command
from awaken.core.state.key import StateKey
from awaken.core.tool_context import ToolCallContext, ToolOutput
from awaken.ids import UUID7
from awaken.plugin.registrar import Registrar
from awaken.testing import FunctionModel, text_response, tool_call_response

NOTES: StateKey[list[str], list[str]] = StateKey("notes", initial=list, public=True)


class Notes:
    """Brings a state key that clients see and write."""

    id = "notes"

    def register(self, registrar: Registrar) -> None:
        registrar.key(NOTES)


@tool(effect="read")
async def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@tool(needs_approval=True, effect="idempotent")
async def ship(order: str) -> str:
    """Ship an order."""
    return f"shipped {order}"


@tool
async def note(text: str, ctx: ToolCallContext) -> ToolOutput:
    """Write a note."""
    return ToolOutput("noted", Command().update(NOTES, [*(ctx.state(NOTES) or ()), text]))


class Desk:
    """The model of the desk. Asked for "slow <name>", it waits in the middle of its answer until
    `go[name]` is set."""

    def __init__(self) -> None:
        self.go: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def agents(self) -> list[Agent]:
        model = FunctionModel(self._answer)
        clerk = Agent("clerk", model=FunctionModel(_clerk), tools=[ship], description="A clerk.")
        desk = Agent(
            "desk",
            model=model,
            tools=[weather, ship, note],
            plugins=[Notes()],
            delegates=[clerk],
            description="Answers what it is asked.",
        )
        return [desk, clerk]

    def _answer(self, request: InferenceRequest) -> StreamResult | AsyncIterator[LlmStreamEvent]:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return text_response(f"Done: {last.text()}")
        word = last.text()
        if word.startswith("slow "):
            return self._slow(word.removeprefix("slow "))
        if word.startswith("stumble "):
            return self._stumble(word.removeprefix("stumble "))
        if word == "fail":
            raise RuntimeError("the model is not in the mood")
        return _reply(word)

    async def _slow(self, name: str) -> AsyncIterator[LlmStreamEvent]:
        yield TextDelta(delta="Slowly, ")
        await self.go[name].wait()
        yield TextDelta(delta="but surely.")
        yield Stop(reason=StopReason.END_TURN)

    async def _stumble(self, name: str) -> AsyncIterator[LlmStreamEvent]:
        yield TextDelta(delta="I should not say")
        await self.go[name].wait()
        raise ContentFiltered("the answer was filtered")


def _reply(word: str) -> StreamResult:
    id = UUID7.new()
    match word:
        case "weather":
            return tool_call_response("Let me look. ", "weather", id, {"city": "Oslo"})
        case "ship":
            return tool_call_response("", "ship", id, {"order": "A1"})
        case "pick":
            return tool_call_response("", "pick_color", id, {"hint": "a warm one"})
        case "mix":
            picked = ToolCall(id=id, name="pick_color", arguments={"hint": "a warm one"})
            shipped = ToolCall(id=UUID7.new(), name="ship", arguments={"order": "A1"})
            return StreamResult(tool_calls=(picked, shipped), stop_reason=StopReason.TOOL_USE)
        case "note":
            return tool_call_response("", "note", id, {"text": "hers"})
        case "delegate" | "delegate a shipment":
            return tool_call_response("", "agent_run_clerk", id, {"prompt": word})
        case "think":
            return StreamResult(
                content=(Thinking(thinking="Hm."), Text(text="I think so.")),
                stop_reason=StopReason.END_TURN,
            )
        case _:
            usage = TokenUsage(prompt_tokens=3, completion_tokens=2, total_tokens=5)
            return text_response(f"You said: {word}", usage)


def _clerk(request: InferenceRequest) -> StreamResult:
    last: Message = request.messages[-1]
    if last.role is Role.USER and "shipment" in last.text():
        return tool_call_response("", "ship", UUID7.new(), {"order": "C3"})
    return text_response(f"The clerk did it. {last.text()}")
