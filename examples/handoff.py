"""Handing a conversation over: the desk sends a guest to the agent who can help.

The run goes on with the other agent, and so does the thread: the next message is his, too, also
after a restart. A `Handoff` says what is special about a way: here, that it leads back.
"""

import asyncio
import tempfile

from awaken import Agent, Runtime, tool
from awaken.ext.handoff import Handoff
from awaken.plugin import ACTIVE_AGENT
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
            tool_call_response("", "handoff", "c3", {"agent": "desk"}),
        ]
    ),
    tools=[refund],
)

desk = Agent(
    "desk",
    model=ScriptedModel(
        [
            tool_call_response("One moment.", "handoff", "c1", {"agent": "billing"}),
            text_response("The desk again: room 12 is yours."),
        ]
    ),
    handoffs=[Handoff(billing, returns=True)],
)


async def main(store: str) -> None:
    async with Runtime([desk, billing], store=store) as runtime:
        result = await runtime.run("desk", "I want my money back for order A-17.", thread="guest")
        print("guest: I want my money back.")
        print("agent:", result.response)

    # Another process, days later. No agent is named: the thread knows who speaks.
    async with Runtime([desk, billing], store=store) as runtime:
        print("after a restart:", await runtime.state("guest", ACTIVE_AGENT))
        for said in ("When?", "Then a room for tonight, please."):
            result = await runtime.run(input=said, thread="guest")
            print("guest:", said)
            print("agent:", result.response)

        calls = [c.name for m in await runtime.messages("guest") for c in m.tool_calls or ()]
        print("calls:", calls)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/hotel.db"))
