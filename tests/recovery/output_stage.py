"""A process that is killed around the calls of tools that are tried again, or end the run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from awaken import Agent, Retry, Runtime, tool
from awaken.contract.llm import InferenceRequest
from awaken.domain.inference import StreamResult
from awaken.testing import FunctionModel, tool_call_response

THREAD = "t"


def made(path: Path, dies_at: int, *, ships: bool) -> Agent:
    """An agent whose tool fails until it is told to go on without; then it ships, which is its
    output. With `ships` it does that at once. The process dies in the given call, from 1 on."""
    book = path.with_name("book")

    def note(word: str) -> int:
        with book.open("a") as file:
            file.write(f"{word}\n")
        return len(book.read_text().splitlines())

    @tool(effect="read")
    def look(day: str) -> str:
        """Look."""
        if note("look") == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        raise Retry("another day")

    @tool(effect="once", recover="verify", verify=lambda ctx: "ship" in book.read_text() and "yes")
    def ship() -> str:
        """Ship."""
        if note("ship") == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return "shipped"

    def answer(request: InferenceRequest) -> StreamResult:
        said = request.messages[-1]
        is_over = "go on without" in said.text() or ships
        name, args = ("ship", {}) if is_over else ("look", {"day": "Monday"})
        return tool_call_response("", name, f"c{len(request.messages)}", args)

    return Agent("a", model=FunctionModel(answer), tools=[look], output=[ship])


async def play(path: Path, dies_at: int, ships: bool) -> None:
    async with Runtime([made(path, dies_at, ships=ships)], store=f"sqlite:///{path}") as runtime:
        await runtime.run("a", "go", thread=THREAD)


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3))
