"""Giving a part of the work to another agent, and seeing what it does.

A delegate is a run of its own, in a thread of its own: it survives a crash like any other. Its
events come in the stream of whoever asked for it, and what it needs approved is asked there, too.
"""

import asyncio

from awaken import Agent, Runtime, tool
from awaken.events import RunStart, TextDelta, ToolCallReady, ToolCallResumed
from awaken.runtime import RunStream
from awaken.testing import ScriptedModel, text_response, tool_call_response


@tool(needs_approval=True)
async def book(hotel: str, nights: int) -> str:
    """Book a room."""
    return f"{nights} nights at the {hotel}, paid"


travel = Agent(
    "travel",
    description="Finds and books hotels.",
    model=ScriptedModel(
        [
            tool_call_response("The Lido is free.", "book", "c1", {"hotel": "Lido", "nights": 2}),
            text_response("You have a room at the Lido."),
        ]
    ),
    tools=[book],
)

planner = Agent(
    "planner",
    model=ScriptedModel(
        [
            tool_call_response("", "agent_run_travel", "c1", {"prompt": "Venice, two nights."}),
            text_response("All set: you stay at the Lido."),
        ]
    ),
    delegates=[travel],
)


async def show(events: RunStream) -> None:
    """Print who does what; a delegate's part stands further in."""
    names: dict[str, str] = {}
    async for told in events:
        margin = "    " if told.parent_run_id else ""
        match told.event:
            case RunStart(identity=identity) if identity is not None:
                names[told.run_id] = f"{margin}{identity.agent_id}"
            case TextDelta(delta=text):
                print(f"{names[told.run_id]} says: {text}")
            case ToolCallReady(name=name, arguments=arguments):
                print(f"{names[told.run_id]} calls {name}: {arguments}")
            case ToolCallResumed(result=str(result)):
                print(f"{names[told.run_id]} goes on: {result}")
            case _:
                pass


async def main() -> None:
    async with Runtime([planner, travel]) as runtime:
        async with runtime.stream("planner", "A weekend in Venice!", thread="trip") as events:
            await show(events)

        (ticket,) = events.result.tickets
        assert ticket.asker is not None
        print(f"to be approved: {ticket.tool_name} {ticket.arguments}, by {ticket.asker.agent_id}")
        async with runtime.stream(thread="trip", answers={ticket: True}) as events:
            await show(events)
        print("the answer:", events.result.response)


if __name__ == "__main__":
    asyncio.run(main())
