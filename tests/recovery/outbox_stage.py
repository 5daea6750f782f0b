"""A process that writes to a thread, or sends what another has left, and is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from awaken import Agent, Runtime
from awaken.core.identity import RunIdentity
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.store.commands import OUTBOX_KEY
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.task import DurableMessageRequest, DurableMessageSink
from awaken.ext.tasks import BackgroundTaskPlugin
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_call_response

SENDER, READER = "sender-thread", "reader-thread"
HELLO = {"to": {"relation": "agent", "thread_id": READER}, "message": "hello"}


def anybody(sender: RunIdentity, thread_id: str, agent_id: str | None) -> str | None:
    return None


class Deaf:
    """A way to other threads that leads nowhere."""

    async def deliver(self, request: DurableMessageRequest) -> None:
        raise OSError("the line is dead")


def sender(sink: DurableMessageSink | None = None) -> Agent:
    def answer(request: InferenceRequest) -> StreamResult:
        if len(request.messages) == 1:
            return tool_call_response("", "send_message", "c", HELLO)
        return text_response("sent")

    plugin = BackgroundTaskPlugin(policy=anybody, sink=sink)
    return Agent("sender", model=FunctionModel(answer), plugins=[plugin])


def reader() -> Agent:
    return Agent("reader", model=FunctionModel(lambda request: text_response("read")))


class Deadly(SqliteStore):
    """A store whose process dies when it is to forget a message that was sent."""

    async def commit(self, commit: ThreadCommit) -> Committed:
        if commit.run is None and OUTBOX_KEY in commit.thread_state:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().commit(commit)


async def write(path: str, sink: DurableMessageSink | None = None) -> None:
    """Write to a thread that cannot be reached now, and be there until somebody kills it."""
    async with Runtime([sender(sink)], store=SqliteStore(path), recover=False) as runtime:
        await runtime.run("sender", "go", thread=SENDER)
        print("ended", flush=True)
        await asyncio.Event().wait()


async def write_in_vain(path: str) -> None:
    await write(path, Deaf())


async def send(path: str) -> None:
    """Send what is left, and die before it is forgotten."""
    async with Runtime([sender(), reader()], store=Deadly(path)):
        await asyncio.Event().wait()


if __name__ == "__main__":
    parts = {"write": write, "write in vain": write_in_vain, "send": send}
    asyncio.run(parts[sys.argv[1]](sys.argv[2]))
