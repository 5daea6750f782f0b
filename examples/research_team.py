"""A research team: an editor that asks two researchers side by side, on one budget.

A delegate is a run of its own, with its own model, tools and thread. What it spends counts on the
editor's budget; its events come in the editor's stream.
"""

import asyncio

from awaken import Agent, Budget, Runtime, tool
from awaken.events import RunStart, ToolCallReady
from awaken.testing import ScriptedModel, tool_call_response, tool_calls_response

SHELVES = {"mill": "The mill was built in 1702.", "bridge": "The bridge was built in 1811."}


@tool(effect="read")
async def look_up(word: str) -> str:
    """Look a word up in the library."""
    return SHELVES.get(word, "nothing")


def researcher(name: str, about: str) -> Agent:
    """A researcher; a real one has `model="openai:gpt-5-mini"` instead of a script."""
    call = tool_call_response("", "look_up", "c1", {"word": about})
    return Agent(
        name,
        model=ScriptedModel([call, SHELVES[about]]),
        description=f"Knows all about the {about}.",
        tools=[look_up],
    )


questions = (
    ("agent_run_historian", "c1", {"prompt": "When was the mill built?"}),
    ("agent_run_engineer", "c2", {"prompt": "When was the bridge built?"}),
)
editor = Agent(
    "editor",
    model=ScriptedModel(
        [
            tool_calls_response("I ask both.", *questions),
            "The mill of 1702 is older than the bridge of 1811.",
        ]
    ),
    system_prompt="Ask your researchers, then write one sentence.",
    delegates=[researcher("historian", "mill"), researcher("engineer", "bridge")],
    budget=Budget(steps=10, seconds=120),
)


async def main() -> None:
    async with Runtime([editor]) as runtime:
        calls: list[str] = []
        names: dict[str, str] = {}
        async with runtime.stream("editor", "Which is older?", thread="article") as events:
            async for told in events:
                match told.event:
                    case RunStart(identity=identity) if identity is not None:
                        names[told.run_id] = identity.agent_id
                    case ToolCallReady(name=name):
                        calls.append(f"{names[told.run_id]} calls {name}")
                    case _:
                        pass
        print(*sorted(calls), sep="\n")
        result = events.result
        print(result.unwrap())
        assert result.spent is not None
        print(f"{result.steps} steps of the editor, {result.spent.steps} of all")


if __name__ == "__main__":
    asyncio.run(main())
