"""A first agent: a function as its tool, a conversation in a thread, an answer read as it comes.

`model="demo"` runs without a key: it calls the tools a message speaks of and tells their answers.
"""

import asyncio

from awaken import Agent, Runtime, tool


@tool
async def weather(city: str) -> str:
    """The weather in a city, in one line."""
    return f"{city}: 21°C, sunny"


assistant = Agent("assistant", model="demo", system_prompt="Be brief.", tools=[weather])


async def main() -> None:
    async with Runtime([assistant]) as runtime:
        result = await runtime.run("assistant", "What is the weather in Paris?", thread="trip")
        print("run:", result.response)

        async with runtime.stream("assistant", "And the weather in Rome?", thread="trip") as events:
            print("stream:", end="")
            async for piece in events.text():
                print(f" [{piece.strip()}]", end="")
            print()

        print("log:", " → ".join(message.role for message in await runtime.messages("trip")))


if __name__ == "__main__":
    asyncio.run(main())
