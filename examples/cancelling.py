"""Stopping a run from outside: by its id, by its thread, or by leaving its stream.

A cancelled run ends properly. Its open calls are answered, its log is complete, and the thread
goes on with the next message.
"""

import asyncio

from awaken import Agent, Runtime, tool

started = asyncio.Event()


@tool
async def dig(metres: int) -> str:
    """Dig a hole of some metres."""
    started.set()
    try:
        await asyncio.sleep(3600)
    finally:
        print("the digger puts the spade away")
    return f"a hole of {metres} metres"


agent = Agent("digger", model="demo", tools=[dig])


async def main() -> None:
    async with Runtime([agent]) as runtime:
        async with asyncio.TaskGroup() as group:
            run = group.create_task(runtime.run("digger", "Please dig 12 metres", thread="garden"))
            await started.wait()
            print("cancelled:", await runtime.cancel("garden"))
        print("ended:", run.result().termination)
        log = await runtime.messages("garden")
        print("the call was told:", log[-1].text())

        result = await runtime.run("digger", "Never mind.", thread="garden")
        print("the thread goes on:", result.response)

        async with runtime.stream("digger", "Say something long", thread="other") as events:
            async for piece in events.text():
                print("heard enough after:", piece.strip())
                break  # leaving the block cancels the run
        print("still running:", await runtime.cancel("other"))


if __name__ == "__main__":
    asyncio.run(main())
