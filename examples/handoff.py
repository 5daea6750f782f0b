"""Handing a conversation over: the desk sends a guest to the agent who can help.

The run goes on with the other agent, and so does the thread: the next message is his, too.
"""

import asyncio

from awaken import Agent, Runtime, tool
from awaken.testing import ScriptedModel, text_response, tool_call_response


@tool
async def refund(order: str) -> str:
    """Give the money for an order back."""
    return f"order {order} refunded"


billing = Agent(
    "billing",
    model=ScriptedModel(
        [
            tool_call_response("", "refund", "c2", {"order": "A-17"}),
            text_response("Billing here: your money is on its way."),
            text_response("Still billing: with you tomorrow."),
        ]
    ),
    tools=[refund],
)

desk = Agent(
    "desk",
    model=ScriptedModel([tool_call_response("One moment.", "handoff", "c1", {"agent": "billing"})]),
    handoffs=[billing],
)


async def main() -> None:
    async with Runtime([desk, billing]) as runtime:
        result = await runtime.run("desk", "I want my money back for order A-17.", thread="guest")
        print("guest: I want my money back.")
        print("agent:", result.response)

        # No agent is named: the thread knows who speaks.
        result = await runtime.run(input="When?", thread="guest")
        print("guest: When?")
        print("agent:", result.response)

        calls = [c.name for m in await runtime.messages("guest") for c in m.tool_calls or ()]
        print("calls:", calls)


if __name__ == "__main__":
    asyncio.run(main())
