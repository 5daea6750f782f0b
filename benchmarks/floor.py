"""The floor: the same work in plain asyncio, written by hand, without any framework.

It validates nothing, keeps nothing, and stops at the first error. With `guarded`, each call is a
task with a timeout, the least anyone would do in earnest.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from benchmarks.measure import main
from benchmarks.work import DELTA, Run, Tally

TIMEOUT = 30.0

Message = dict[str, Any]
Tool = Callable[..., Coroutine[Any, Any, Any]]


class Call(NamedTuple):
    """A call, as a model streams it: the arguments are JSON text."""

    id: str
    name: str
    arguments: str


Model = Callable[[list[Message]], AsyncIterator[str | Call]]


class Loop:
    """An agent loop on half a page."""

    def __init__(self, model: Model, tools: dict[str, Tool], guarded: bool) -> None:
        self._model = model
        self._tools = tools
        self._call = self._guarded_call if guarded else self._plain_call

    async def run(self) -> str:
        pieces = [piece async for piece in self.stream()]
        return "".join(pieces)

    async def stream(self) -> AsyncIterator[str]:
        """The text of all answers, as it comes."""
        messages: list[Message] = [{"role": "user", "content": "go"}]
        while True:
            text: list[str] = []
            calls: list[Call] = []
            async for item in self._model(messages):
                if isinstance(item, str):
                    text.append(item)
                    yield item
                else:
                    calls.append(item)
            messages.append({"role": "assistant", "content": "".join(text), "calls": calls})
            if not calls:
                return
            if len(calls) == 1:
                messages.append(await self._call(calls[0]))
            else:
                messages.extend(await asyncio.gather(*map(self._call, calls)))

    async def _plain_call(self, call: Call) -> Message:
        result = await self._tools[call.name](**json.loads(call.arguments))
        return {"role": "tool", "id": call.id, "content": str(result)}

    async def _guarded_call(self, call: Call) -> Message:
        tool = self._tools[call.name](**json.loads(call.arguments))
        async with asyncio.timeout(TIMEOUT):
            result = await asyncio.create_task(tool)
        return {"role": "tool", "id": call.id, "content": str(result)}


class Floor:
    """The loop, as a program to be measured."""

    imports = "import asyncio"

    def __init__(self, *, guarded: bool = False) -> None:
        self.name = "floor, guarded" if guarded else "floor"
        self._guarded = guarded

    @asynccontextmanager
    async def steps(self, count: int, delay: float, tally: Tally) -> AsyncIterator[Run]:
        async def model(messages: list[Message]) -> AsyncIterator[str | Call]:
            if delay:
                await asyncio.sleep(delay)
            step = len(messages) // 2
            if step < count:
                yield Call(f"c{step}", "add", f'{{"a": {step}, "b": 1}}')
            else:
                yield "done"

        yield Loop(model, {"add": _tool(tally)}, self._guarded).run

    @asynccontextmanager
    async def deltas(self, count: int, tally: Tally) -> AsyncIterator[Run]:
        async def model(messages: list[Message]) -> AsyncIterator[str | Call]:
            for _ in range(count):
                yield DELTA

        loop = Loop(model, {}, self._guarded)

        async def run() -> None:
            async for _ in loop.stream():
                tally.count += 1

        yield run

    @asynccontextmanager
    async def calls(self, count: int, tally: Tally) -> AsyncIterator[Run]:
        async def model(messages: list[Message]) -> AsyncIterator[str | Call]:
            if len(messages) > 1:
                yield "done"
                return
            for number in range(count):
                yield Call(f"c{number}", "add", f'{{"a": {number}, "b": 1}}')

        yield Loop(model, {"add": _tool(tally)}, self._guarded).run

    @asynccontextmanager
    async def delegates(self, count: int, tally: Tally) -> AsyncIterator[Run]:
        async def boss(messages: list[Message]) -> AsyncIterator[str | Call]:
            step = len(messages) // 2
            yield Call(f"c{step}", "ask", "{}") if step < count else "done"

        async def child(messages: list[Message]) -> AsyncIterator[str | Call]:
            tally.count += 1
            yield "done"

        async def ask() -> str:
            return await asyncio.create_task(Loop(child, {}, self._guarded).run())

        yield Loop(boss, {"ask": ask}, self._guarded).run

    @asynccontextmanager
    async def tasks(self, count: int, tally: Tally) -> AsyncIterator[Run]:
        async def body() -> None:
            tally.count += 1

        async def run() -> None:
            for task in [asyncio.create_task(body()) for _ in range(count)]:
                await task

        yield run


def _tool(tally: Tally) -> Tool:
    async def add(a: int, b: int) -> int:
        tally.count += 1
        return a + b

    return add


if __name__ == "__main__":
    main(Floor(guarded=bool(os.environ.get("GUARDED"))))
