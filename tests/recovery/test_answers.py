"""Answers that come early: the question is durable while its run is still busy with other calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

from answer_kit import by_id
from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.store.threads import TicketQuery
from awaken.testing import FunctionModel, text_response, tool_calls_response

THREAD = "t1"


def answer(request: InferenceRequest) -> StreamResult:
    if request.messages[-1].role is Role.TOOL:
        return text_response("done")
    return tool_calls_response("", ("pay", "c1", {"euros": 5}), ("look", "c2", {}))


async def test_an_answer_given_while_other_calls_run_is_carried_out(tmp_path: Path) -> None:
    answered = asyncio.Event()

    @tool(needs_approval=True)
    async def pay(euros: int) -> str:
        """Pay."""
        return f"paid {euros}"

    @tool(effect="read")
    async def look() -> str:
        """Look around until somebody has answered."""
        await answered.wait()
        return "seen"

    agent = Agent("desk", model=FunctionModel(answer), tools=[pay, look])
    async with Runtime([agent], store=f"sqlite:///{tmp_path / 'awaken.db'}") as runtime:
        store, since = runtime.engine.store, 0
        async with asyncio.TaskGroup() as group:
            group.create_task(runtime.run("desk", "Pay!", thread=THREAD))
            while not (await store.list_tickets(TicketQuery(thread_id=THREAD))).items:
                since = await store.wait_changed(THREAD, since)
            assert await runtime.decide(THREAD, await by_id(runtime, {"c1": True}))
            answered.set()
        async with asyncio.timeout(2):
            while True:
                latest = await store.latest_run(THREAD)
                if latest is not None and latest.status is RunStatus.DONE:
                    break
                since = await store.wait_changed(THREAD, since)
        assert "paid 5" in [message.text() for message in await runtime.messages(THREAD)]
