"""A process that submits a run and dies in the same instant, or while it carries one out."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_call_response

THREAD = "t"


def clerk(path: str) -> Agent:
    """An agent that writes a line into a file, once, and says so."""

    @tool
    def note() -> str:
        """Note it."""
        with open(f"{path}.notes", "a") as file:
            file.write("noted\n")
        return "noted"

    def answer(request: InferenceRequest) -> StreamResult:
        if request.messages[-1].tool_call_id is None:
            return tool_call_response("", "note", "c", {})
        return text_response("done")

    return Agent("clerk", model=FunctionModel(answer), tools=[note])


class Deadly(SqliteStore):
    """A store whose process dies before or after one of its commits."""

    def __init__(self, path: str, at: int, *, after: bool) -> None:
        super().__init__(path)
        self._left, self._after = at, after

    async def commit(self, commit: ThreadCommit) -> Committed:
        self._left -= 1
        if self._left == 0 and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        made = await super().commit(commit)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return made


async def submit(path: str) -> None:
    runtime = Runtime([clerk(path)], store=f"sqlite:///{path}", recover=False)
    submitted = await runtime.submit("clerk", "note it", thread=THREAD, key="k")
    print(submitted.run_id, submitted.cursor, int(submitted.is_new), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


async def carry_out(path: str, at: int, *, after: bool) -> None:
    store = Deadly(path, at, after=after)
    async with Runtime([clerk(path)], store=store) as runtime:
        await runtime.wait((await runtime.list_runs()).items[0].run_id)
    await store.close()


if __name__ == "__main__":
    part, path, *more = sys.argv[1:]
    if part == "submit":
        asyncio.run(submit(path))
    else:
        asyncio.run(carry_out(path, int(more[0]), after=part == "after"))
