"""Asking before acting: a call that needs approval suspends its run until somebody answers.

Nothing waits in memory meanwhile. The answer may come much later: give it with the same thread.
"""

import asyncio

from awaken import Agent, Runtime, ToolCallResume, tool


def is_much(amount: int, to: str) -> bool:
    return amount > 100


@tool(needs_approval=is_much)
async def pay(amount: int, to: str) -> str:
    """Pay somebody an amount of euros."""
    return f"paid {amount} € to {to}"


clerk = Agent("clerk", model="demo", tools=[pay])


async def main() -> None:
    async with Runtime([clerk]) as runtime:
        small = await runtime.run("clerk", "Please pay 20 euros to Ann", thread="small")
        print("no question:", small.response)

        waiting = await runtime.run("clerk", "Please pay 500 euros to Bob", thread="big")
        (ticket,) = waiting.tickets
        print("suspended:", waiting.suspended, ticket.tool_name, ticket.arguments)
        done = await runtime.run(thread="big", answers={ticket: True})
        print("approved:", done.response)

        waiting = await runtime.run("clerk", "Please pay 900 euros to Eve", thread="bad")
        no = ToolCallResume.deny("Eve is not on the list")
        denied = await runtime.run(thread="bad", answers={waiting.tickets[0]: no})
        print("denied:", denied.response)

        asked = await runtime.run(
            "clerk",
            "Please pay 300 euros to Dan",
            on_approval=lambda ticket: ticket.arguments["to"] == "Dan",
        )
        print("asked at once:", asked.response)


if __name__ == "__main__":
    asyncio.run(main())
