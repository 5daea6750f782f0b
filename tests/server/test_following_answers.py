"""Following a run that has an answer, or a cancel, which no process has taken yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from edge_kit import Desk, open_desk, pay

from awaken import Agent, Runtime
from awaken.core.store.commands import ThreadCommand
from awaken.models import Role
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio
STREAM = {"accept": "text/event-stream"}
THREAD = "acme/t"
"""The thread `t` of the page, as the store knows it."""


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'a.db'}"
    address: str = request.getfixturevalue("postgres").address()
    return address


def agent() -> Agent:
    """It asks before it pays; its model knows from the conversation how far it is."""
    call = tool_call_response("", "pay", "c1", {"euros": 5})
    paid = text_response("Paid.")
    model = FunctionModel(lambda asked: paid if asked.messages[-1].role is Role.TOOL else call)
    return Agent("payer", model=model, tools=[pay])


async def paused(desk: Desk, store: str) -> tuple[dict[str, Any], int]:
    """The question of a run that waits for an approval, and that no process has; and the number of
    its last event."""
    async with Runtime([agent()], store=store):
        question = await desk.ticket("t", "page")
    thread = await desk.runtime.store.load_thread(THREAD)
    assert thread is not None
    return question, thread.event_count


@pytest.mark.parametrize("until", ["run", "rest"])
@pytest.mark.parametrize("given", ["answer", "cancel"])
@pytest.mark.parametrize("path", ["/v1/threads/t/events", "/v1/runs/{run}/events"])
async def test_a_run_that_will_go_on_is_not_over(
    store: str, tmp_path: Path, until: str, given: str, path: str
) -> None:
    """No process resumes it while the client comes, as if each were busy: the node that serves the
    client does not run it."""
    async with open_desk(tmp_path, store=store, agents=[agent()], recover=False) as desk:
        question, seq = await paused(desk, store)
        run_id = question["run_id"]
        path = f"{path.format(run=run_id)}?until={until}"
        headers = {**STREAM, "last-event-id": str(seq)}
        over = await desk.ask("page", "GET", path, headers=headers)
        await desk.runtime.store.send(ThreadCommand.cancel(THREAD, "another", at_ms=1))
        still_over = await desk.ask("page", "GET", path, headers=headers)
        assert (over.status_code, still_over.status_code) == (204, 204)

        if given == "answer":
            named = {"ticket": question["key"], "digest": question["digest"]}
            answer: Any = [{**named, "action": "approve"}]
            answered = await desk.ask(
                "developer", "POST", f"/v1/runs/{run_id}/decisions", json=answer
            )
            assert answered.status_code == 200, answered.text
        else:
            await desk.runtime.store.cancel_tree(THREAD, at_ms=1)
        key = {"authorization": f"Bearer {desk.keys['page']}"}
        async with desk.client.stream("GET", path, headers={**headers, **key}) as followed:
            assert followed.status_code == 200
            for recovered in await desk.runtime.recover():
                await recovered
            lines = [line async for line in followed.aiter_lines() if line.startswith("data: ")]

        last = json.loads(lines[-1].removeprefix("data: "))["event"]
        assert last["event_type"] == "run_finish"
        assert last["termination"]["type"] == ("natural_end" if given == "answer" else "cancelled")
