"""The AI SDK's streams, byte by byte."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from chat_kit import PICK_COLOUR, Desk, application
from edge_kit import open_desk
from server_kit import served

from awaken import Message, Runtime
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.message import BlobSource
from awaken.core.store.commands import SubmitMode
from awaken.core.store.threads import RunQuery

pytestmark = pytest.mark.anyio
CHAT = "/v1/ai-sdk/agents/desk/chat"


class Stage(NamedTuple):
    client: httpx2.AsyncClient
    runtime: Runtime
    desk: Desk

    async def send(self, text: str, *, chat: str = "t", id: str = "u1") -> httpx2.Response:
        return await self.client.post(CHAT, json=body(text, chat=chat, id=id), timeout=550)

    async def until(self, number: int, status: RunStatus) -> None:
        """Wait until the chat has so many runs of a status."""
        seen = 0
        while len(await self.runtime.list_runs(RunQuery(thread_id="t", status=status))) < number:
            seen = await self.runtime.store.wait_changed("t", seen)


def body(text: str, *, chat: str = "t", id: str = "u1") -> Any:
    message = {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": chat, "messages": [message], "trigger": "submit-message"}


def chunks_of(answer: httpx2.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line[:1] == "d"]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    desk = Desk()
    async with (
        Runtime(desk.agents) as runtime,
        served(application(runtime, desk)) as address,
        httpx2.AsyncClient(base_url=address) as client,
    ):
        yield Stage(client, runtime, desk)
        desk.released.set()


async def test_a_stream_is_marked_and_ends_with_done(stage: Stage) -> None:
    answer = await stage.send("hello")
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [chunk["type"] for chunk in chunks_of(answer)][-2:] == ["finish-step", "finish"]


async def test_the_only_agent_need_not_be_named() -> None:
    async with (
        Runtime(Desk().agents[1:2]) as runtime,
        served(application(runtime, Desk())) as address,
        httpx2.AsyncClient(base_url=address) as client,
    ):
        answer = await client.post("/v1/ai-sdk/chat", json=body("hello"))
    assert chunks_of(answer)[0]["messageMetadata"]["agentId"] == "travel"


async def test_the_same_request_at_once_and_later_is_one_run(stage: Stage) -> None:
    """06/SV-24"""
    async with asyncio.TaskGroup() as group:
        both = [group.create_task(stage.send("weather")) for _ in range(2)]
    later = await stage.send("weather")
    ids = {chunks_of(answer)[0]["messageId"] for answer in (*[t.result() for t in both], later)}
    assert len(ids) == 1
    assert len(await stage.runtime.list_runs(RunQuery(thread_id="t"))) == 1


async def test_the_stream_of_a_run_that_is_withdrawn_ends(stage: Stage) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(stage.send("wait"))
        await stage.until(1, RunStatus.RUNNING)
        queued = group.create_task(stage.send("hello", id="u2"))
        await stage.until(1, RunStatus.CREATED)
        await stage.runtime.submit("desk", "count", thread="t", mode="interrupt")
    chunks = chunks_of(queued.result())
    assert [chunk["type"] for chunk in chunks] == ["start", "abort", "finish"]


async def test_a_page_shows_the_question_of_a_run_that_has_not_started(stage: Stage) -> None:
    """06/SV-21: the server was killed behind the first frame, say, and the page is loaded before
    another one has begun with the run, whose stream brings the answer alone."""
    first = await stage.runtime.submit("desk", Message.user("Hello?", id="u1"), thread="t")
    await stage.runtime.wait(first.run_id)
    later = await stage.runtime.submit(
        "desk", Message.user("And now?", id="u2"), thread="t", not_before_ms=2**52
    )
    for _ in range(2):
        shown = (await stage.client.get(f"{CHAT}/t/messages")).json()
        assert [message["role"] for message in shown] == ["user", "assistant", "user"]
        assert [message["id"] for message in shown if message["role"] == "user"] == ["u1", "u2"]
    await stage.runtime.cancel(later.run_id)
    await stage.runtime.submit(
        "desk",
        Message.user("Hi?", id="u3"),
        thread="t",
        rewind_to="u1",
        mode=SubmitMode.INTERRUPT,
        not_before_ms=2**52,
    )
    shown = (await stage.client.get(f"{CHAT}/t/messages")).json()
    assert [message["id"] for message in shown] == ["u3"]


async def test_a_page_that_leaves_cancels_the_run_only_if_it_says_so(stage: Stage) -> None:
    async with stage.client.stream("POST", CHAT, json=body("wait")):
        await stage.until(1, RunStatus.RUNNING)
    leaves = {"x-awaken-on-disconnect": "cancel"}
    async with stage.client.stream("GET", f"{CHAT}/t/stream", headers=leaves) as resumed:
        assert resumed.status_code == 200
    await stage.until(1, RunStatus.DONE)
    (run,) = await stage.runtime.list_runs(RunQuery(thread_id="t"))
    assert run.termination_reason == CANCELLED


async def test_nothing_is_resumed_where_nothing_works(stage: Stage) -> None:
    assert (await stage.client.get(f"{CHAT}/unknown/stream")).status_code == 204
    await stage.send("pay")
    assert (await stage.client.get(f"{CHAT}/t/stream")).status_code == 204


async def test_a_chat_that_does_not_exist_is_not_found(stage: Stage) -> None:
    for answer in (
        await stage.client.get(f"{CHAT}/unknown/messages"),
        await stage.client.post(f"{CHAT}/unknown/cancel"),
    ):
        assert answer.status_code == 404
        assert answer.text == "there is no such chat, or this key may not see it"
        assert answer.headers["content-type"].startswith("text/plain")


async def test_a_new_message_takes_the_place_of_an_answer(stage: Stage) -> None:
    await stage.send("pay")
    chunks = chunks_of(await stage.send("hello", id="u2"))
    assert chunks[-1]["finishReason"] == "stop"
    assert stage.desk.paid == []
    assert not (await stage.runtime.list_tickets()).items


# -- keys ---------------------------------------------------------------------------------------


def said(text: str, **more: Any) -> dict[str, Any]:
    return {
        "method": "POST",
        "path": "/v1/ai-sdk/agents/payer/chat",
        "json": {**body(text), **more},
    }


async def test_tenants_have_chats_of_one_name_and_see_no_scope(tmp_path: Path) -> None:
    """06/SV-27"""
    async with open_desk(tmp_path) as desk:
        mine, theirs = [
            chunks_of(await desk.ask(who, **said("hi"))) for who in ("boss", "stranger")
        ]
        loaded = await desk.ask("boss", "GET", "/v1/ai-sdk/agents/payer/chat/t/messages")
    assert mine[0]["messageMetadata"]["threadId"] == theirs[0]["messageMetadata"]["threadId"] == "t"
    assert mine[0]["messageId"] != theirs[0]["messageId"]
    assert [message["id"] for message in loaded.json()] == ["u1", mine[0]["messageId"]]
    assert "acme/" not in loaded.text + str(mine)


async def test_an_approval_needs_a_role_and_a_refusal_is_a_sentence(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        chunks = chunks_of(await desk.ask("page", **said("hi")))
        (asks,) = [chunk for chunk in chunks if chunk["type"] == "tool-approval-request"]
        part = {
            "type": "tool-pay",
            "toolCallId": asks["toolCallId"],
            "state": "approval-responded",
            "approval": {"id": asks["approvalId"], "approved": True},
        }
        answer = {"id": chunks[0]["messageId"], "role": "assistant", "parts": [part]}
        refused = await desk.ask("page", **said("", messages=[answer]))
        keyless = await desk.ask(None, **said("hi"))
        taken = chunks_of(await desk.ask("developer", **said("", messages=[answer])))
    assert (refused.status_code, refused.text) == (403, "an approval needs the role decide")
    assert (keyless.status_code, keyless.text[:16]) == (401, "this needs a key")
    assert taken[-1]["finishReason"] == "stop"


async def test_the_result_of_a_pages_tool_that_comes_twice_gives_the_same_run(
    stage: Stage,
) -> None:
    asked = body("colour") | {"tools": [PICK_COLOUR]}
    chunks = chunks_of(await stage.client.post(CHAT, json=asked))
    part = {"type": "dynamic-tool", "toolName": "pick_colour", "toolCallId": "c1", "input": {}}
    part |= {"state": "output-available", "output": "red"}
    said = {"id": chunks[0]["messageId"], "role": "assistant", "parts": [part]}
    sent = asked | {"messages": [*asked["messages"], said]}
    first, again = [chunks_of(await stage.client.post(CHAT, json=sent)) for _ in range(2)]
    assert first == again
    assert "So: red" in "".join(chunk.get("delta", "") for chunk in again)
    part["output"] = "blue"
    late = await stage.client.post(CHAT, json=sent)
    assert (late.status_code, late.headers["x-awaken-error"]) == (409, "decision_refused")


async def test_an_answer_that_comes_with_a_message_brings_the_run_from_its_beginning(
    stage: Stage,
) -> None:
    """The page's answer was lost. Behind a user's message it begins the message of the run anew,
    which must have the call that the output is for."""
    chunks = chunks_of(await stage.send("pay"))
    part = {"type": "tool-pay", "toolCallId": "c1", "state": "approval-responded"}
    key = next(chunk["approvalId"] for chunk in chunks if "approvalId" in chunk)
    said = {"role": "assistant", "parts": [{**part, "approval": {"id": key, "approved": False}}]}
    first, later = body("pay")["messages"][0], body("never mind", id="u2")["messages"][0]
    sent = {"id": "t", "messages": [first, {"id": chunks[0]["messageId"], **said}, later]}
    types = [chunk["type"] for chunk in chunks_of(await stage.client.post(CHAT, json=sent))]
    assert types.index("tool-input-available") < types.index("tool-output-denied")
    assert types[-1] == "finish"
    assert stage.desk.paid == []


async def test_arguments_that_do_not_fit_are_refused_with_the_tools_words(stage: Stage) -> None:
    chunks = chunks_of(await stage.send("pay"))
    run_id = chunks[0]["messageId"]
    key = next(chunk["approvalId"] for chunk in chunks if "approvalId" in chunk)
    approval = {"id": key, "approved": False}
    part = {"type": "tool-pay", "toolCallId": "c1", "state": "approval-responded"}
    said = {"id": run_id, "role": "assistant", "parts": [{**part, "approval": approval}]}
    answers = {"answers": {key: {"amount": "five", "to": "Ann"}}}
    sent = {**body("pay"), "messages": [*body("pay")["messages"], said]}
    refused = await stage.client.post(CHAT, json=sent | answers)
    told = (refused.status_code, refused.headers["x-awaken-error"])
    assert told == (409, "invalid_arguments")
    assert "amount" in refused.text
    chunks_of(await stage.client.post(CHAT, json=sent))
    assert stage.desk.paid == []


async def test_a_large_file_comes_back_with_the_messages(tmp_path: Path) -> None:
    """The store keeps it as a blob; pages of both protocols get it as it was sent."""
    url = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 400).decode()
    asked = body("Look")
    asked["messages"][0]["parts"].append({"type": "file", "mediaType": "image/png", "url": url})
    async with open_desk(tmp_path, store=f"sqlite:///{tmp_path / 'f.db'}") as desk:
        sent = await desk.ask("boss", "POST", "/v1/ai-sdk/agents/talker/chat", json=asked)
        assert sent.status_code == 200
        (kept,) = [m for m in await desk.runtime.messages("acme/t") if m.is_visible_user()]
        loaded = await desk.ask("boss", "GET", "/v1/ai-sdk/agents/talker/chat/t/messages")
        shown = await desk.ask("boss", "GET", "/v1/ag-ui/agents/talker/threads/t/connect")
    assert any(isinstance(getattr(b, "source", None), BlobSource) for b in kept.content)
    assert loaded.json()[0]["parts"][1]["url"] == url
    assert url.partition(",")[2] in shown.text
