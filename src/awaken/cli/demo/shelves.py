"""An agent of the demo that is at work for a minute or two: it counts the shop's shelves."""

from __future__ import annotations

import re
from collections.abc import Mapping

from awaken.cli.demo.story import Line, Storyteller
from awaken.clock import SYSTEM_CLOCK
from awaken.runtime import Agent
from awaken.tool import tool

STOCK_PROMPT = "Please count what is on the shelves."
SHELVES = 60
_SECONDS = 0.9


def stock(told: Mapping[str, str]) -> Line:
    """The next answer, given the result of the last count: one shelf after the other."""
    found = re.match(r"shelf (\d+)", told.get("count_shelf", ""))
    counted = int(found[1]) if found else 0
    if counted >= SHELVES:
        return f"All {SHELVES} shelves are counted.", {}
    words = f"Shelf {counted + 1} is next." if counted else "I begin with the first shelf."
    return words, {"count_shelf": {"shelf": counted + 1}}


def stock_agent(speed: float) -> Agent:
    """The agent, ready to run; `speed` 1 is for watching."""

    async def count_shelf(shelf: int) -> str:
        """Count what is on a shelf."""
        await SYSTEM_CLOCK.sleep(_SECONDS * speed)
        return f"shelf {shelf} holds {shelf * 7 % 40 + 3} mugs"

    return Agent(
        "stock",
        model=Storyteller(stock, speed),
        tools=[tool(count_shelf, effect="read")],
        max_rounds=SHELVES + 1,
    )
