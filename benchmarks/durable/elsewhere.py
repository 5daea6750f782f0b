"""A second process on the same file: reads what to ask, asks it, and says when it began."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Literal

from awaken import Runtime
from awaken.codec import loads
from awaken.core.value import Value
from benchmarks.durable.ours import address


class Ask(Value, frozen=True, kw_only=True):
    """One word to a thread's run, as a line of JSON."""

    word: Literal["cancel", "message", "decision"]
    thread: str
    ticket: str = ""


async def serve(path: Path) -> None:
    async with Runtime([], store=address(path), recover=False) as runtime:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
            ask = loads(line, Ask)
            began = time.monotonic()
            if not await _carry_out(runtime, ask):
                raise AssertionError(f"nobody heard {ask}")
            print(began, flush=True)


async def _carry_out(runtime: Runtime, ask: Ask) -> bool:
    match ask.word:
        case "cancel":
            return bool(await runtime.cancel(ask.thread, deadline=0))
        case "message":
            return await runtime.send(ask.thread, "stop")
        case "decision":
            return await runtime.decide(ask.thread, {ask.ticket: True})


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
