"""Two servers on one SQLite file: a request may go to either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
from edge_kit import Desk, code_of, open_desk, write_keys
from server_kit import served

from awaken import Agent, Runtime
from awaken.codec import loads
from awaken.core.event import RunEvent, RunFinish, StepSnapshot, StepStart, TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.server import app

pytestmark = pytest.mark.anyio

SAID = {"agent_id": "talker", "messages": ["Hi"]}
KEY = {"idempotency-key": "order-7"}


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[list[Desk]]:
    store, keys = f"sqlite:///{tmp_path}/awaken.db", write_keys(tmp_path / "keys.toml")
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(open_desk(tmp_path, store=store, keys=keys))
            for _ in range(2)
        ]


@pytest.mark.parametrize("path", ["/v1/threads/t/runs", "/v1/runs"])
async def test_the_same_request_is_carried_out_once(desks: list[Desk], path: str) -> None:
    """06/SV-24: at once and later, on two nodes; another body under the key changes nothing."""
    here, there = desks
    answers = await asyncio.gather(
        *(desk.ask("page", "POST", path, json=SAID, headers=KEY) for desk in (here, there) * 3)
    )
    first = answers[0].json()
    ended = await here.runtime.wait(first["run_id"], timeout=550)
    answers.append(await there.ask("page", "POST", path, json=SAID, headers=KEY))
    assert {answer.status_code for answer in answers} == {202}
    assert [answer.json() for answer in answers] == [first] * 7
    other = {**SAID, "messages": ["Bye"]}
    refused = await there.ask("page", "POST", path, json=other, headers=KEY)
    assert (refused.status_code, code_of(refused)) == (422, "key_reused")
    assert "acme" not in refused.text
    runs = (await there.ask("page", "GET", "/v1/runs")).json()["items"]
    assert [run["run_id"] for run in runs] == [first["run_id"]]
    assert ended.response == "Hello."


async def test_an_approval_is_given_on_one_node_and_a_token_is_good_on_both(
    desks: list[Desk],
) -> None:
    """06/SV-25 on two nodes: one answer is taken."""
    here, there = desks
    ticket = await here.ticket("t")
    yes = [{"ticket": ticket["key"], "action": "approve", "digest": ticket["digest"]}]
    path = f"/v1/runs/{ticket['run_id']}/decisions"
    both = await asyncio.gather(
        here.ask("operator", "POST", path, json=yes), there.ask("approver", "POST", path, json=yes)
    )
    assert sorted(answer.status_code for answer in both) == [200, 409]
    await there.runtime.wait(ticket["run_id"], timeout=550)
    said = [message.text() for message in await there.runtime.messages("acme/t")]
    assert said.count("paid 5") == 1
    made = await here.ask("viewer", "POST", "/v1/tokens", json={"thread_id": "t"})
    there.keys["browser"] = made.json()["token"]
    assert (await there.ask("browser", "GET", "/v1/threads/t")).status_code == 200


class Halting:
    """Says a word, and another one when it is let go."""

    name = "halting"

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        yield TextDelta(delta="one ")
        await self.released.wait()
        yield TextDelta(delta="two.")
        yield Stop(reason=StopReason.END_TURN)


async def test_a_step_begins_before_its_pieces_on_a_node_that_does_not_run_it(
    tmp_path: Path,
) -> None:
    """A client may open or clear a message at `step_start`, and still has all of its text."""
    store, model = f"sqlite:///{tmp_path}/awaken.db", Halting()
    agent = Agent("halting", model=model)
    shown = ""
    kinds: list[type] = []
    async with (
        Runtime([agent], store=store) as here,
        Runtime([agent], store=store, recover=False) as there,
        served(app(there)) as address,
        httpx2.AsyncClient(base_url=address, timeout=550) as client,
    ):
        accepted = await here.submit("halting", "go", thread="t")
        path, head = f"/v1/runs/{accepted.run_id}/events", {"accept": "text/event-stream"}
        async with client.stream("GET", path, headers=head) as answer:
            async for line in answer.aiter_lines():
                if not line.startswith("data: "):
                    continue
                told = loads(line.removeprefix("data: "), RunEvent).event
                kinds.append(type(told))
                match told:
                    case StepStart():
                        shown = ""
                    case TextDelta(delta=piece):
                        shown += piece
                        model.released.set()
                    case StepSnapshot(text=text):
                        shown = text or ""
                        model.released.set()
                    case RunFinish():
                        break
                    case _:
                        pass
    assert shown == "one two."
    assert kinds.index(StepStart) < kinds.index(StepSnapshot)
