"""Typed state: a key says what it holds and how changes join; tools answer with a command.

Both calls of the first turn run at the same time, on the same snapshot. Their updates add up,
because the key says so. `apply` makes a new value from the old one and an update.
"""

import asyncio
from collections import Counter

from awaken import (
    Agent,
    Command,
    Merge,
    Runtime,
    StateKey,
    ToolCallContext,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.testing import ScriptedModel, text_response, tool_call_response, tool_calls_response

Basket = dict[str, int]


def with_more(basket: Basket, more: Basket) -> Basket:
    return dict(Counter(basket) + Counter(more))


BASKET: StateKey[Basket, Basket] = StateKey(
    "shop.basket", initial=Basket, apply=with_more, merge=Merge.COMMUTATIVE
)


@tool
async def add(item: str, pieces: int = 1) -> ToolOutput:
    """Put something into the basket."""
    done = ToolResult.success("add", {"added": item, "pieces": pieces})
    return ToolOutput(done, Command().update(BASKET, {item: pieces}))


@tool
async def basket(ctx: ToolCallContext) -> Basket:
    """What is in the basket."""
    return ctx.state(BASKET) or {}


SCRIPT = [
    tool_calls_response(
        "", ("add", "c1", {"item": "apple", "pieces": 2}), ("add", "c2", {"item": "pear"})
    ),
    tool_call_response("", "add", "c3", {"item": "apple"}),
    tool_call_response("", "basket", "c4", {}),
    text_response("Three apples and a pear."),
]


async def main() -> None:
    shop = Agent("shop", model=ScriptedModel(SCRIPT), tools=[add, basket], state=[BASKET])
    async with Runtime([shop]) as runtime:
        result = await runtime.run("shop", "2 apples and a pear. One more apple!", thread="t1")
        for message in await runtime.messages("t1"):
            if message.tool_call_id:
                print(f"{message.tool_call_id}:", message.text())
        print(result.response)


if __name__ == "__main__":
    asyncio.run(main())
