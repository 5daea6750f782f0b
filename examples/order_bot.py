"""An order bot: it tries again when a tool says so, and ends with a deed instead of a text.

`Retry` tells the model what to do better. `output=[place, decline]` has it end with a call of one
of these functions; what that returns is the output. `place` runs once, whatever is killed.
"""

import asyncio
from dataclasses import dataclass

from awaken import Agent, Phase, PhaseContext, Retry, Runtime, tool
from awaken.testing import ScriptedModel, tool_call_response

PRICES = {"LAMP-1": 40.0, "CHAIR-2": 25.0}


@dataclass
class Order:
    article: str
    pieces: int
    euros: float


@tool(effect="read", retries=3)
async def price(article: str) -> float:
    """The price of an article, by its number."""
    if article not in PRICES:
        raise Retry(f"use the article's number: {', '.join(PRICES)}")
    return PRICES[article]


@tool(effect="once")
async def place(article: str, pieces: int) -> Order:
    """Place the order."""
    if not 1 <= pieces <= 10:
        raise Retry("one order is for 1 to 10 pieces")  # before anything has happened
    return Order(article, pieces, pieces * PRICES[article])


@tool(effect="read")
async def decline(reason: str) -> str:
    """End without an order."""
    return reason


SCRIPT = [
    tool_call_response("", "price", "c1", {"article": "lamp"}),
    tool_call_response("", "price", "c2", {"article": "LAMP-1"}),
    tool_call_response("", "place", "c3", {"article": "LAMP-1", "pieces": 20}),
    tool_call_response("", "place", "c4", {"article": "LAMP-1", "pieces": 2}),
]
bot = Agent("bot", model=ScriptedModel(SCRIPT), tools=[price], output=[place, decline])


@bot.on(Phase.STEP_END)
async def show(ctx: PhaseContext) -> None:
    """A hook: what the model was told in each step."""
    print(f"told: {ctx.messages[-1].text()}")


async def main() -> None:
    async with Runtime([bot]) as runtime:
        result = await runtime.run("bot", "Two lamps, please. No, twenty. No: two.")
    match result.unwrap():
        case Order() as order:
            print(f"ordered {order.pieces} × {order.article} for {order.euros:g} €")
        case reason:
            print("no order:", reason)


if __name__ == "__main__":
    asyncio.run(main())
