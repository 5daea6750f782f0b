"""A tool that runs in the user's front end: the run waits for its result.

The runtime knows only its description. The call comes out as a ticket; what the front end
answers goes back in as the call's result, and the model reads it.
"""

import asyncio

from awaken import Agent, Runtime, ToolCallResume, ToolDescriptor

pick_colour = ToolDescriptor(
    id="pick_colour",
    name="pick_colour",
    description="Let the user pick a colour on the screen.",
    parameters={
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
    },
)

designer = Agent("designer", model="demo")


async def show_dialog(title: str) -> dict[str, str]:
    """What would happen in a browser."""
    print(f"dialog {title!r}: the user picks green")
    return {"colour": "green", "hex": "#00aa44"}


async def main() -> None:
    async with Runtime([designer]) as runtime:
        result = await runtime.run(
            "designer",
            'Ask the user to pick a colour, title: "Wall paint"',
            thread="page-1",
            frontend_tools=[pick_colour],
        )
        while result.suspended:
            answers = {
                ticket: ToolCallResume.approve(await show_dialog(**ticket.arguments))
                for ticket in result.tickets
            }
            result = await runtime.run(
                thread="page-1", answers=answers, frontend_tools=[pick_colour]
            )
        print(result.response)


if __name__ == "__main__":
    asyncio.run(main())
