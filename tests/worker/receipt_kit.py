"""Agents whose calls wait, in every way a call can wait, for tests that cancel them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.run import CancelReceipt
from awaken.testing import FunctionModel, text_response, tool_calls_response

T = "t"


class Site:
    """Tools that say when they have begun, and go on for ever or until they are let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Semaphore(0)
        self.let_go = asyncio.Event()
        self.unblock = threading.Event()

        @tool(effect="read")
        async def read() -> str:
            """Read for ever."""
            return await self.wait()

        @tool
        async def once() -> str:
            """Do something that must be done once, for ever."""
            return await self.wait()

        @tool(effect="read")
        async def quick() -> str:
            """Be done at once."""
            return "done"

        loop = asyncio.get_running_loop()

        @tool(effect="idempotent")
        def block() -> str:
            """Block a thread."""
            loop.call_soon_threadsafe(self.begun.release)
            self.unblock.wait()
            return "too late"

        @tool(effect="read")
        async def stubborn() -> str:
            """Do not mind being cancelled."""
            self.begun.release()
            while not self.let_go.is_set():
                with suppress(asyncio.CancelledError):
                    await self.let_go.wait()
            return "done after all"

        @tool(needs_approval=True)
        async def pay() -> str:
            """Pay."""
            return "paid"

        self.tools: list[Any] = [read, once, quick, block, stubborn, pay]

    async def wait(self) -> str:
        self.begun.release()
        await self.let_go.wait()
        return "let go"

    def agent(self, *names: str, id: str = "digger", **options: Any) -> Agent:
        """An agent that makes these calls at once, then says that it is done."""
        return Agent(id, model=FunctionModel(caller(*names)), tools=self.tools, **options)

    @asynccontextmanager
    async def busy(
        self, runtime: Runtime, agent: str = "digger", *, calls: int = 1
    ) -> AsyncIterator[asyncio.Task[Any]]:
        """A run so many of whose calls have begun; in the end it is let go."""
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            task = group.create_task(runtime.run(agent, "go", thread=T))
            try:
                for _ in range(calls):
                    await self.begun.acquire()
                yield task
            finally:
                self.let_go.set()
                self.unblock.set()


def caller(*names: str) -> Callable[[InferenceRequest], StreamResult]:
    """Calls these once, then is done."""
    calls = [
        (name, f"{name}-{n}", {"prompt": "go"} if name.startswith("agent_run_") else {})
        for n, name in enumerate(names)
    ]

    def answer(request: InferenceRequest) -> StreamResult:
        if not calls or any(message.role is Role.TOOL for message in request.messages):
            return text_response("done")
        return tool_calls_response("", *calls)

    return answer


def outcomes(receipt: CancelReceipt) -> list[tuple[str, str, str]]:
    """Kind, name and outcome of everything, in order."""
    return [(item.kind, item.name, item.outcome.value) for item in receipt.items]
