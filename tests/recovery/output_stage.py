"""A process that is killed around the calls of tools that are tried again, or end the run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from awaken import Agent, Phase, PhaseContext, Retry, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.testing import FunctionModel, tool_call_response

THREAD = "t"
DEADLY = {
    "after": Phase.AFTER_TOOL_EXECUTE,
    "step": Phase.STEP_END,
    "run": Phase.RUN_END,
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def made(path: Path, dies_at: int, *, ships: str | None = None) -> Agent:
    """An agent whose tool fails until it is told to go on without; then it ships, which is its
    output. The process dies in the given call, from 1 on. With `ships` it ships at once, and dies
    before, in or after its deed, or when the run has its output."""
    book = path.with_name("book")

    def note(word: str) -> int:
        with book.open("a") as file:
            file.write(f"{word}\n")
        return len(book.read_text().splitlines())

    @tool(effect="read")
    def look(day: str) -> str:
        """Look."""
        if note("look") == dies_at:
            die()
        raise Retry("another day")

    @tool(effect="once", recover="verify", verify=lambda ctx: "ship" in book.read_text() and "yes")
    def ship() -> str:
        """Ship."""
        if ships == "before" and dies_at:
            die()
        if note("ship") == dies_at and ships == "in":
            die()
        return "shipped"

    def answer(request: InferenceRequest) -> StreamResult:
        said = request.messages[-1]
        is_over = "go on without" in said.text() or ships is not None
        name, args = ("ship", {}) if is_over else ("look", {"day": "Monday"})
        return tool_call_response("", name, f"c{len(request.messages)}", args)

    agent = Agent("a", model=FunctionModel(answer), tools=[look], output=[ship])
    if dies_at and ships in DEADLY:

        @agent.on(DEADLY[ships])
        async def end(ctx: PhaseContext) -> None:
            die()

    return agent


async def play(path: Path, dies_at: int, ships: str | None) -> None:
    async with Runtime([made(path, dies_at, ships=ships)], store=f"sqlite:///{path}") as runtime:
        await runtime.run("a", "go", thread=THREAD)


if __name__ == "__main__":
    where = sys.argv[3] if len(sys.argv) > 3 else None
    asyncio.run(play(Path(sys.argv[1]), int(sys.argv[2]), where))
