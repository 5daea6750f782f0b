"""One life of a process whose agent talks at length.

`python compaction_life.py <home> <die|live>`: talks until a summary is asked for and dies in the
middle of a run and of the summary; or goes on until one is swapped in, and tells what there is.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from compaction_kit import Chat, settle, shown

from awaken import tool
from awaken.codec import dumps_text
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.stores.sqlite import SqliteStore
from awaken.testing import text_response, tool_call_response
from awaken.testing.models import FunctionAnswer


def answer(request: InferenceRequest) -> FunctionAnswer:
    """Looks around in every turn, then says something; the same whoever asks."""
    if request.messages[-1].role is Role.TOOL:
        return text_response("word " * 200)
    return tool_call_response("", "look", "c", {})


async def main(home: Path, dies: bool) -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look around."""
        await settle()
        if dies and chat.summariser.asked.is_set():
            os.kill(os.getpid(), signal.SIGKILL)
        return "seen " * 100

    chat = Chat(store=SqliteStore(home / "talk.db"), answer=answer, tools=[look])
    if dies:
        chat.summariser.free.clear()
    async with chat.runtime:
        for run in await chat.runtime.recover():
            await run
        while not (await chat.state()).total_compactions:
            await chat.say("word " * 200)
            await settle()
        log, state = await chat.log(), await chat.state()
    told = {
        "first": shown(chat.requests[-1])[0],
        "summaries": state.total_compactions,
        "in_flight": state.in_flight is not None,
        "calls": sum(len(m.tool_calls or ()) for m in log),
        "results": sum(m.role is Role.TOOL for m in log),
        "users": sum(m.is_visible_user() for m in log),
    }
    print(dumps_text(told))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "die"))
