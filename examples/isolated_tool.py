"""A plain function that can be stopped: it runs in a worker process, which is killed.

Threads cannot be stopped. What an ordinary sync tool does goes on when its run is cancelled or its
time is up; with `isolated=True` it does not, and a crash of it is a failed call and nothing more.
"""

import asyncio
import os
import tempfile
import time
from pathlib import Path

from awaken import Agent, Runtime, tool


@tool(isolated=True)
def render(film: str) -> str:
    """Render a film. It never looks up from its work."""
    Path("begun").write_text(str(os.getpid()))
    while True:
        time.sleep(60)


studio = Agent("studio", model="demo", tools=[render])


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def main() -> None:
    async with Runtime([studio]) as runtime, asyncio.TaskGroup() as group:
        run = group.create_task(runtime.run("studio", "Please render 'Metropolis'", thread="film"))
        worker = int(await asyncio.to_thread(Path("begun").read_text))
        print("rendering elsewhere:", worker != os.getpid() and is_alive(worker))

        receipt = await runtime.cancel("film")
        for item in receipt.items:
            print(f"the {item.kind} {item.name!r} was {item.outcome}")
        print("ended:", (await run).termination)
        print("still rendering:", is_alive(worker))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.mkfifo("begun")  # reading it waits for somebody who writes
        asyncio.run(main())
