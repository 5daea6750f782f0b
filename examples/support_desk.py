"""A support desk: tools that know the customer, and refunds that ask a person first.

The customer comes with the run as a typed dependency, so the model cannot ask for another one's
orders. The question survives a restart: nothing waits in memory, and the maker below gives the run
its database again.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from awaken import Agent, PhaseContext, RunContext, RunInfo, Runtime, ToolCallResume, tool

ORDERS = {("ann", 7): 40.0, ("ann", 8): 300.0, ("bob", 9): 15.0}
refunded: list[str] = []


@dataclass
class Desk:
    orders: dict[tuple[str, int], float]
    customer: str


def is_dear(order: int) -> bool:
    return any(euros > 100 for (_, number), euros in ORDERS.items() if number == order)


@tool(effect="read")
async def price_paid(order: int, ctx: RunContext[Desk]) -> str:
    """The price that was paid for an order."""
    euros = ctx.deps.orders.get((ctx.deps.customer, order))
    return "no such order" if euros is None else f"{euros:g} euros"


@tool(effect="once", needs_approval=is_dear)
async def refund(order: int, ctx: RunContext[Desk]) -> str:
    """Refund an order."""
    refunded.append(ctx.idempotency_key)
    return f"refunded {ctx.deps.orders[ctx.deps.customer, order]:g} euros"


def prompt(ctx: PhaseContext[Desk]) -> str:
    return f"You help {ctx.deps.customer}. Be brief and kind."


def make_desk(run: RunInfo) -> Desk:
    return Desk(ORDERS, run.user or "")


desk = Agent("desk", model="demo", deps=Desk, system_prompt=prompt, tools=[price_paid, refund])


async def main(store: str) -> None:
    async with Runtime([desk], store=store, deps={Desk: make_desk}) as runtime:
        for words in ("What was the price of order 9?", "Please refund order 7"):
            result = await runtime.run("desk", words, thread="ann", user="ann")
            print(result.unwrap())
        waiting = await runtime.run("desk", "Please refund order 8", thread="ann", user="ann")
        print(waiting.reason)

    # Another process, another day: whoever answers needs the store alone.
    async with Runtime([desk], store=store, deps={Desk: make_desk}) as runtime:
        (ticket,) = await runtime.list_tickets()
        print(f"{ticket.message} {ticket.arguments}")
        yes = ToolCallResume.approve(by="carol")
        result = await runtime.run(thread=ticket.thread_id, answers={ticket.key: yes})
        print(result.unwrap(), len(refunded), "refunds")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{Path(folder) / 'desk.db'}"))
