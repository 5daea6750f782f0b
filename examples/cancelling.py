"""Stopping a run from outside: by its id, by its thread, or by leaving its stream.

A cancelled run ends properly. Its open calls are answered, its log is complete, and the thread
goes on with the next message. The receipt says of each run, task and call what became of it.
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
            receipt = await runtime.cancel("garden")
        print("cancelled:", receipt.accepted, "and nothing is left running:", receipt.complete)
        for item in receipt.items:
            note = f", {item.note}" if item.note else ""
            print(f"the {item.kind} {item.name!r} was {item.outcome}{note}")
        print("ended:", run.result().termination)
        log = await runtime.messages("garden")
        print("the call was told:", log[-1].text())

        result = await runtime.run("digger", "Never mind.", thread="garden")
        print("the thread goes on:", result.response)

        async with runtime.stream("digger", "Say something long", thread="other") as events:
            async for piece in events.text():
                print("heard enough after:", piece.strip())
                break  # leaving the block cancels the run
        print("still running:", bool(await runtime.cancel("other")))


if __name__ == "__main__":
    asyncio.run(main())
