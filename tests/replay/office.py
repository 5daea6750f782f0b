"""An office whose database is kept: every later version has to read it, and to continue its runs.

    python tests/replay/office.py tests/replay/NAME.sqlite
    PYTHONPATH=tests python tests/replay/office.py tests/replay/NAME.sql

write one with the code as it is: a database of SQLite, or the statements that restore a schema of
Postgres. Both hold all that a store can hold: finished runs, one that waits for an approval, one
whose delegate does, a background task, a budget, a fork, and runs whose process was killed: in the
middle of a call while a message waited for it, in the middle of a call of its delegate, and of an
agent that it had started in the background.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import sys
from importlib import import_module
from pathlib import Path

from awaken import Agent, Budget, RunResult, Runtime, ToolCallContext, tool
from awaken.core.event import ToolCallReady
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.testing import FunctionModel, text_response, tool_call_response

was_written_to = asyncio.Event()
is_counting = asyncio.Event()
running: list[asyncio.Task[RunResult]] = []


@tool
async def charge(ctx: ToolCallContext) -> str:
    """Take the money."""
    return "charged"


@tool(effect="read")
async def look() -> str:
    """Look into the stock."""
    return "three chairs"


@tool(needs_approval=True)
async def ship() -> str:
    """Send the goods."""
    return "shipped"


@tool
async def explode() -> str:
    """Take the process down."""
    await was_written_to.wait()
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(effect="read")
async def research() -> str:
    """Find something out, in the background."""
    if "OFFICE_IS_BUSY" in os.environ:
        await asyncio.Event().wait()
    return "found"


@tool(effect="read")
async def count() -> str:
    """Count the boxes."""
    is_counting.set()
    if "OFFICE_IS_BUSY" in os.environ:
        await asyncio.Event().wait()
    return "nine boxes"


ASKED = {
    "agent_run_clerk": "please charge ship",
    "agent_run_porter": "please charge count",
    "agent_run_packer": "please charge count",
}


def follow_words(request: InferenceRequest) -> StreamResult:
    """A model that calls the tools its user names, one a step, and says what came of them."""
    asked = max(i for i, m in enumerate(request.messages) if m.role is Role.USER)
    while asked and request.messages[asked - 1].role is Role.USER:
        asked -= 1
    words = request.messages[asked].text().split()
    told = [m.text() for m in request.messages[asked:] if m.role is Role.TOOL]
    if words[0] != "please" or len(told) == len(words) - 1:
        return text_response(" / ".join(told) or "noted")
    name = words[1 + len(told)]
    arguments = {"prompt": ASKED[name]} if name in ASKED else {}
    return tool_call_response("", name, f"c{len(told)}", arguments)


clerk = Agent("clerk", model=FunctionModel(follow_words), tools=[charge, ship])
porter = Agent("porter", model=FunctionModel(follow_words), tools=[charge, count])
packer = Agent("packer", model=FunctionModel(follow_words), tools=[charge, count])
boss = Agent(
    "boss",
    model=FunctionModel(follow_words),
    tools=[charge, look, ship, explode],
    background=[research, packer],
    delegates=[clerk, porter],
    budget=Budget(steps=50),
)
AGENTS = [boss, clerk, porter, packer]


async def fill(runtime: Runtime) -> None:
    await runtime.run("boss", "please look charge", thread="talk")
    await runtime.run("boss", "thank you", thread="talk")
    await runtime.run("boss", "please charge ship", thread="approval")
    await runtime.run("boss", "please agent_run_clerk", thread="team")
    await runtime.run("boss", "please research", thread="background")
    await runtime.fork("talk", at=4, new="copy")
    for helper in ("packer", "porter"):
        is_counting.clear()
        asked = runtime.run("boss", f"please agent_run_{helper}", thread=helper)
        running.append(asyncio.create_task(asked))
        await is_counting.wait()
    async with runtime.stream("boss", "please charge explode", thread="killed") as events:
        async for told in events:
            if isinstance(told.event, ToolCallReady) and told.event.name == "explode":
                await runtime.send("killed", "hurry")
                was_written_to.set()


SCHEMA = "office"


async def write(address: str) -> None:
    async with Runtime(AGENTS, store=address) as runtime:
        await fill(runtime)


def write_and_die(address: str) -> None:
    """Fill a store in a process that kills itself."""
    if os.fork() == 0:
        os.environ["OFFICE_IS_BUSY"] = "1"
        asyncio.run(write(address))
    _, status = os.wait()
    assert os.WTERMSIG(status) == signal.SIGKILL, "the writer was to be killed in the middle"


def write_sqlite(path: str) -> None:
    write_and_die(f"sqlite:///{path}")
    database = sqlite3.connect(path)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    for beside in Path(path).parent.glob(f"{Path(path).name}?*"):
        beside.unlink() if beside.is_file() else shutil.rmtree(beside)


def write_postgres(path: str) -> None:
    with import_module("postgres_kit").running_postgres() as server:
        write_and_die(f"{server.dsn}?schema={SCHEMA}")
        Path(path).write_text(server.dump(SCHEMA))


if __name__ == "__main__":
    write_postgres(sys.argv[1]) if sys.argv[1].endswith(".sql") else write_sqlite(sys.argv[1])
