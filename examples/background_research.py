"""Work that goes on while nobody waits for it, and outlives the process that began it.

A call of a background tool returns at once: the agent says what it has begun, and its run waits.
When the task has ended the agent is told, and goes on by itself. Here the process is killed in
between; the next one takes the task up again, for asking twice does no harm (`effect="read"`).
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.models import InferenceRequest, StreamResult
from awaken.testing import FunctionModel, text_response, tool_call_response

SOURCES = {
    "the library": "built in 1702",
    "the archive": "burnt in 1790",
    "the miller": "rebuilt in 1801",
}
letters: asyncio.Queue[str] = asyncio.Queue()


@tool(effect="read")
async def research(topic: str, ctx: ToolCallContext) -> str:
    """Find out about something, by letter."""
    known: list[str] = []
    for number, source in enumerate(SOURCES):
        await ctx.report_progress(message=f"waiting for {source}", progress=number / len(SOURCES))
        known.append(await letters.get())
    return f"{topic} was {', '.join(known)}"


def think(request: InferenceRequest) -> StreamResult:
    """A model that looks at the conversation, as models do."""
    last = request.messages[-1].text()
    if last.startswith("<background-task-event"):
        return text_response(f"I have it: {json.loads(last.splitlines()[1])['result']}.")
    if any(message.tool_calls for message in request.messages):
        return text_response("I have written some letters.")
    return tool_call_response("", "research", "c1", {"topic": "the mill"})


agent = Agent("historian", model=FunctionModel(think), background=[research])


async def show_progress(runtime: Runtime, message: str) -> None:
    """Print how far the task is, as soon as it is so far."""
    while True:
        for task in await runtime.tasks("mill"):
            if task.progress is not None and task.progress.message == message:
                print(f"  {task.description}: {task.progress.fraction:.0%}, {message}", flush=True)
                return
        await asyncio.sleep(0.01)


async def first() -> None:
    async with Runtime([agent], store="sqlite:///mill.db") as runtime:
        result = await runtime.run("historian", "What about the mill?", thread="mill")
        print("agent:", result.response)
        await show_progress(runtime, "waiting for the library")
        letters.put_nowait(SOURCES["the library"])
        await show_progress(runtime, "waiting for the archive")
        os.kill(os.getpid(), signal.SIGKILL)


async def second() -> None:
    async with Runtime([agent], store="sqlite:///mill.db") as runtime:
        for source, letter in SOURCES.items():
            await show_progress(runtime, f"waiting for {source}")
            letters.put_nowait(letter)
        print("agent:", (await runtime.wait("mill")).response)


if __name__ == "__main__":
    if "--die" in sys.argv:
        asyncio.run(first())
    else:
        here = Path(__file__).resolve()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            killed = subprocess.run([sys.executable, here, "--die"], check=False)
            print("the first process was killed:", killed.returncode == -signal.SIGKILL)
            asyncio.run(second())
