"""A served console with a story in it, for tests and pictures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from awaken import Agent, Runtime, tool
from awaken.contract.llm import InferenceRequest
from awaken.domain.budget import Price
from awaken.domain.inference import StopReason, StreamResult, TokenUsage
from awaken.domain.message import Role, Text, ToolCall
from awaken.server import app
from awaken.server.auth import LOCAL
from awaken.testing import FunctionModel


@tool(effect="read")
async def find_order(number: int) -> dict[str, Any]:
    """Find an order."""
    return {"number": number, "paid": 40, "state": "delivered", "customer": "Ann"}


@tool(effect="read")
async def policy(topic: str) -> str:
    """What the shop's rules say."""
    return f"{topic}: broken goods are paid back within 30 days"


@tool(effect="once", needs_approval=True)
async def refund(order: int, euros: int) -> str:
    """Pay money back."""
    return f"paid {euros} euros back for order {order}"


@tool(effect="read")
async def weigh(parcel: str) -> str:
    """Weigh a parcel."""
    raise RuntimeError(f"the scale does not answer for {parcel}")


def said(text: str, *calls: tuple[str, dict[str, Any]], tokens: int = 300) -> StreamResult:
    """An answer with calls; every answer uses the same call ids, as some providers do."""
    made = tuple(
        ToolCall(id=f"c{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(calls)
    )
    return StreamResult(
        content=(Text(text=text),),
        tool_calls=made,
        usage=TokenUsage(prompt_tokens=tokens, completion_tokens=20),
        stop_reason=StopReason.TOOL_USE if made else StopReason.END_TURN,
    )


def answers(*script: StreamResult) -> FunctionModel:
    """A model that goes through a script once in each conversation."""

    def answer(request: InferenceRequest) -> StreamResult:
        given = sum(message.role is Role.ASSISTANT for message in request.messages)
        return script[given % len(script)]

    return FunctionModel(answer)


MODELS = {
    "desk-1": answers(
        said(
            "I look at the order and at the shop's rules.",
            ("agent_run_clerk", {"prompt": "What was paid for order 7?"}),
            ("policy", {"topic": "broken goods"}),
        ),
        said("The mug came broken, so I pay it back.", ("refund", {"order": 7, "euros": 40})),
        said("I have paid 40 euros back. Ann has been told."),
    ),
    "clerk-1": answers(
        said("Let me see.", ("find_order", {"number": 7}), tokens=120),
        said("Order 7 was paid with 40 euros, and delivered.", tokens=160),
    ),
    "porter-1": answers(
        said("I weigh it.", ("weigh", {"parcel": "P-1"})), said("The scale is broken.")
    ),
}
PRICES = {
    "desk-1": Price(input=2.0, output=8.0),
    "clerk-1": Price(input=0.25, output=1.0),
}


def shop() -> list[Agent]:
    """A desk that lets a clerk look something up and asks before it pays, and a porter whose tool
    fails, and whose model has no price."""
    clerk = Agent("clerk", model="clerk-1", description="Knows the orders.", tools=[find_order])
    desk = Agent("desk", model="desk-1", tools=[policy, refund], delegates=[clerk])
    return [desk, clerk, Agent("porter", model="porter-1", tools=[weigh])]


@asynccontextmanager
async def opened(
    folder: Path, agents: Sequence[Agent] | None = None, **edge: Any
) -> AsyncIterator[tuple[Runtime, Starlette]]:
    """A runtime on a SQLite file, and the application that serves it."""
    store = f"sqlite:///{folder / 'console.db'}"
    async with Runtime(agents or shop(), store=store, models=MODELS, prices=PRICES) as runtime:
        yield runtime, app(runtime, **edge)


def link(application: Starlette, address: str, place: str = "") -> str:
    """The address that `awaken serve` would print."""
    return f"{address}/console/{place}#t={application.state.sessions.make_word(LOCAL)}"


async def until(ask: Any, timeout: float = 30) -> Any:
    """What `ask` returns, once that is true."""
    async with asyncio.timeout(timeout):
        while not (found := await ask()):
            await asyncio.sleep(0.05)
    return found
