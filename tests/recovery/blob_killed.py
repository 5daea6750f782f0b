"""A process that is killed right after it has written a blob, or right after the commit of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from awaken import Agent, Runtime, tool
from awaken.blobs import Blob, FolderBlobs
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.stores import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_call_response

THREAD = "t"


class Killed(FolderBlobs):
    """Blobs whose process dies when the first one is durable."""

    async def put(self, *given: Any) -> Blob:
        await super().put(*given)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it is dead")


def reader(tries: Path) -> Agent:
    """An agent that fetches a large text, which is another one at each try, and reads its end."""

    @tool(effect="read")
    def fetch() -> str:
        """Fetch it."""
        with tries.open("a") as file:
            file.write("x")
        return f"{len(tries.read_text())}:" + "y" * 200_000

    def answer(request: InferenceRequest) -> Any:
        last = request.messages[-1]
        if last.role is Role.USER:
            return tool_call_response("", "fetch", "c1", {})
        if last.tool_call_id == "c1":
            id = last.text().rpartition("id '")[2].partition("'")[0]
            return tool_call_response("", "read_result", "c2", {"id": id, "length": 4})
        return text_response(last.text().partition("\n")[0])

    return Agent("a", model=FunctionModel(answer), tools=[fetch])


async def main(folder: Path) -> None:
    store = SqliteStore(folder / "awaken.db")
    blobs = Killed(f"{store.path}-blobs", store)
    async with Runtime([reader(folder / "tries")], store=store, blobs=blobs) as runtime:
        await runtime.run("a", "go", thread=THREAD)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
