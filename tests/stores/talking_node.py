"""A node that runs an agent. Its model writes a word for each line on standard input.

python tests/stores/talking_node.py STORE BUS
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from awaken import Agent, Runtime
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop


class Typist:
    """Writes the lines that it is given, until there are no more."""

    name = "typist"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            yield TextDelta(delta=line.rstrip("\n"))
        yield Stop(reason=StopReason.END_TURN)


async def main(store: str, bus: str) -> None:
    agent = Agent("a", model=Typist())
    async with Runtime([agent], store=store, bus=bus) as runtime:
        await runtime.run("a", "go", thread="t")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
