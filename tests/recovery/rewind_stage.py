"""A process that rewinds a thread and dies around the commit that does it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from submission_stage import Deadly

from awaken import Agent, Runtime
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.testing import FunctionModel, text_response

THREAD = "t"


def echo() -> Agent:
    """An agent that answers with all that it was shown."""

    def answer(request: InferenceRequest) -> StreamResult:
        return text_response("+".join(m.text() for m in request.messages if m.is_visible_user()))

    return Agent("echo", model=FunctionModel(answer))


async def submit(path: str, message_id: str) -> None:
    runtime = Runtime([echo()], store=f"sqlite:///{path}", recover=False)
    await runtime.submit("echo", "edited", thread=THREAD, rewind_to=message_id, key="k")
    os.kill(os.getpid(), signal.SIGKILL)


async def carry_out(path: str, at: int, *, after: bool) -> None:
    store = Deadly(path, at, after=after)
    async with Runtime([echo()], store=store) as runtime:
        await runtime.wait((await runtime.list_runs()).items[0].run_id)
    await store.close()


if __name__ == "__main__":
    part, path, more = sys.argv[1:]
    if part == "submit":
        asyncio.run(submit(path, more))
    else:
        asyncio.run(carry_out(path, int(more), after=part == "after"))
