"""The AI SDK's own clients against a server (06/SV-20)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from chat_kit import PICK_COLOUR, VERSIONS, ChatClient, Desk, application, chat_client
from server_kit import served

from awaken import Runtime

pytestmark = pytest.mark.anyio


class Stage(NamedTuple):
    client: ChatClient
    desk: Desk
    address: str

    async def play(self, play: str, version: str, *, agent: str = "desk", **asked: Any) -> Any:
        """Play a scene in a chat of its own. A page that is loaded afterwards shows the same."""
        api = f"{self.address}/v1/ai-sdk/agents/{agent}/chat"
        where = {"version": version, "api": api, "chat": asked.pop("chat", f"{play}-{version}")}
        told = await self.client.play(play, **where, **asked)
        if play == "load":
            return told
        if told["status"] == "ready":
            loaded = await self.client.play("load", **where)
            assert [plain(message) for message in loaded["messages"]] == [
                plain(message) for message in told["messages"]
            ]
        return told


@pytest.fixture(scope="module")
async def stage() -> AsyncIterator[Stage]:
    desk = Desk()
    async with (
        chat_client() as client,
        Runtime(desk.agents) as runtime,
        served(application(runtime, desk)) as address,
    ):
        yield Stage(client, desk, address)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def plain(message: Any) -> Any:
    """A message without the ids of blocks of reasoning, which only later clients keep, and without
    the yes or no of calls that have ended: beside a value it is a no until the messages are loaded,
    and version 6 does not read it in a stream."""
    parts = [
        {name: value for name, value in part.items() if name != "id" or part["type"] != "reasoning"}
        for part in message["parts"]
    ]
    for part in parts:
        if part.get("state", "").startswith("output-") and "approval" in part:
            part["approval"] = {"id": part["approval"]["id"]}
    return {**message, "parts": parts}


def parts_of(message: Any) -> list[Any]:
    """The parts without the borders of steps."""
    return [part for part in message["parts"] if part["type"] != "step-start"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_text_and_reasoning_stream_into_one_message(stage: Stage, version: str) -> None:
    """06/SV-20"""
    told = await stage.play("send", version, text="hello")
    user, answer = told["messages"]
    reasoning, text = parts_of(answer)
    assert (told["status"], told["finish"]) == ("ready", "stop")
    assert user["parts"] == [{"type": "text", "text": "hello"}]
    assert (reasoning["type"], reasoning["text"]) == ("reasoning", "Let me think.")
    assert (text["type"], text["text"]) == ("text", "You said: hello. ")
    assert answer["metadata"]["runId"] == answer["id"]
    assert answer["metadata"]["threadId"] == f"send-{version}"
    assert answer["metadata"]["agentId"] == "desk"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_tool_that_runs_here_is_shown_with_its_output(stage: Stage, version: str) -> None:
    """06/SV-20"""
    told = await stage.play("send", version, chat=f"tool-{version}", text="weather")
    said, call, text = parts_of(told["messages"][1])
    assert said["text"] == "Let me look."
    assert (call["type"], call["state"]) == ("tool-weather", "output-available")
    assert call["input"] == {"city": "Rome"}
    assert call["output"] == {"city": "Rome", "sky": "clear"}
    assert call["providerExecuted"] is True
    assert text["text"] == 'So: {"city":"Rome","sky":"clear"}'


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_approved_call_goes_on_in_the_same_message(stage: Stage, version: str) -> None:
    """06/SV-20"""
    stage.desk.paid.clear()
    told = await stage.play(
        "approve", version, chat=f"yes-{version}", text="pay", answer={"approved": True}
    )
    asked, question = parts_of(told["asked"])
    assert (asked["type"], asked["state"]) == ("tool-pay", "approval-requested")
    assert question["type"] == "data-approval"
    assert question["id"] == asked["approval"]["id"]
    assert question["data"]["input"] == {"amount": 500, "to": "Bob"}
    _, answer = told["messages"]
    call, _, text = parts_of(answer)
    assert answer["id"] == told["asked"]["id"]
    assert (call["state"], call["output"]) == ("output-available", "paid 500 to Bob")
    assert text["text"] == "So: paid 500 to Bob"
    assert stage.desk.paid == [(500, "Bob")]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_refused_call_is_shown_as_denied(stage: Stage, version: str) -> None:
    """06/SV-20"""
    stage.desk.paid.clear()
    no = {"approved": False, "reason": "too much"}
    told = await stage.play("approve", version, chat=f"no-{version}", text="pay", answer=no)
    call, _, text = parts_of(told["messages"][1])
    assert (call["state"], told["finish"]) == ("output-denied", "stop")
    assert "too much" in text["text"]
    assert stage.desk.paid == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_approver_edits_the_arguments(stage: Stage, version: str) -> None:
    """06/SV-20"""
    stage.desk.paid.clear()
    told = await stage.play(
        "approve",
        version,
        chat=f"edit-{version}",
        text="pay",
        answer={"approved": False},
        edits={"amount": 5, "to": "Ann"},
    )
    call, _, text = parts_of(told["messages"][1])
    assert (call["state"], call["output"]) == ("output-available", "paid 5 to Ann")
    assert call["input"] == {"amount": 5, "to": "Ann"}
    assert text["text"] == "So: paid 5 to Ann"
    assert stage.desk.paid == [(5, "Ann")]


@pytest.mark.parametrize("version", VERSIONS)
async def test_arguments_that_do_not_fit_pay_nothing_with_the_next_message(
    stage: Stage, version: str
) -> None:
    """The page sends its answer again with the message, but not the arguments."""
    stage.desk.paid.clear()
    told = await stage.play(
        "misfit",
        version,
        chat=f"misfit-edit-{version}",
        text="pay",
        misfit={"amount": "five"},
        then="never mind",
    )
    ((name, why),) = told["errors"]
    assert name != "TypeError"  # which would say that the connection broke
    assert "amount" in why
    assert stage.desk.paid == []
    call, *_ = parts_of(told["messages"][1])
    assert call["state"] == "output-denied"
    assert told["status"] == "ready"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_question_comes_back_after_arguments_that_do_not_fit(
    stage: Stage, version: str
) -> None:
    stage.desk.paid.clear()
    told = await stage.play(
        "misfit",
        version,
        chat=f"corrected-{version}",
        text="pay",
        misfit={"amount": "five"},
        edits={"amount": 5, "to": "Ann"},
    )
    call, _, text = parts_of(told["messages"][1])
    assert (call["input"], call["output"]) == ({"amount": 5, "to": "Ann"}, "paid 5 to Ann")
    assert text["text"] == "So: paid 5 to Ann"
    assert len(told["errors"]) == 1
    assert stage.desk.paid == [(5, "Ann")]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_page_carries_out_a_tool_of_its_own(stage: Stage, version: str) -> None:
    """06/SV-20"""
    told = await stage.play(
        "frontend", version, text="colour", tools=[PICK_COLOUR], output={"colour": "green"}
    )
    call, text = parts_of(told["messages"][1])
    assert (call["type"], call["toolName"]) == ("dynamic-tool", "pick_colour")
    assert (call["state"], call["output"]) == ("output-available", {"colour": "green"})
    assert text["text"] == 'So: {"colour":"green"}'
    assert len(told["messages"]) == 2


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_page_fails_to_carry_out_its_tool(stage: Stage, version: str) -> None:
    """06/SV-20"""
    told = await stage.play(
        "frontend",
        version,
        chat=f"misfit-{version}",
        text="colour",
        tools=[PICK_COLOUR],
        errorText="no screen",
    )
    _, text = parts_of(told["messages"][1])
    assert text["text"] == 'So: {"error":"no screen"}'


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_page_that_is_loaded_carries_out_the_tool_that_waits(
    stage: Stage, version: str
) -> None:
    told = await stage.play(
        "taken_up", version, text="colour", tools=[PICK_COLOUR], output={"colour": "red"}
    )
    call, text = parts_of(told["messages"][1])
    assert (call["state"], call["output"]) == ("output-available", {"colour": "red"})
    assert text["text"] == 'So: {"colour":"red"}'


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_step_has_a_tool_of_the_page_and_an_approval(stage: Stage, version: str) -> None:
    """The SDK would send the page's result again and again if it still took it for its own."""
    stage.desk.paid.clear()
    told = await stage.play(
        "mixed", version, text="colour and pay", tools=[PICK_COLOUR], output="green"
    )
    colour, pay, _, text = parts_of(told["messages"][1])
    assert told["errors"] == []
    assert told["requests"] == 3  # the message, the colour, the yes
    assert (colour["state"], colour["output"]) == ("output-available", "green")
    assert (pay["state"], pay["output"]) == ("output-available", "paid 500 to Bob")
    assert text["text"] == "So: paid 500 to Bob"
    assert stage.desk.paid == [(500, "Bob")]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_run_is_cancelled_from_the_page(stage: Stage, version: str) -> None:
    """06/SV-20"""
    stage.desk.released.clear()
    told = await stage.play("cancel", version, text="wait")
    assert told["cancelled"] == {"cancelled": True}
    assert (told["status"], told["finish"]) == ("ready", "other")
    loaded = await stage.play("load", version, chat=f"cancel-{version}")
    assert loaded["messages"][1]["metadata"]["termination"] == "cancelled"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_delegate_is_shown_beside_its_call(stage: Stage, version: str) -> None:
    """06/SV-20"""
    told = await stage.play("send", version, chat=f"team-{version}", text="delegate")
    call, delegate, text = parts_of(told["messages"][1])
    assert (call["type"], call["state"]) == ("tool-agent_run_travel", "output-available")
    assert delegate["type"] == "data-agent"
    assert delegate["data"] == {"name": "travel", "status": "done", "text": "A room is free."}
    assert text["text"].startswith("So:")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_run_that_fails_is_an_error_of_the_chat(stage: Stage, version: str) -> None:
    """06/SV-20"""
    told = await stage.play("send", version, chat=f"fail-{version}", agent="broken", text="hello")
    assert told["status"] == "error"
    assert "the model is away" in told["error"]
    where = {"chat": f"fail-{version}", "agent": "broken"}
    _, answer = (await stage.play("load", version, **where))["messages"]
    assert (answer["role"], parts_of(answer)) == ("assistant", [])
    assert answer["metadata"]["termination"] == "failed"
    assert answer["metadata"]["error"] == told["error"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_errors_before_the_stream_are_sentences(stage: Stage, version: str) -> None:
    told = await stage.play("send", version, chat=f"empty-{version}", text="")
    assert told["status"] == "error"
    assert told["error"] == "The message is empty: write a text, or add a file."


TOO_LARGE = (
    "the body has more than 16777216 bytes; "
    "send less at once: the page of a chat can send its last message alone"
)


@pytest.mark.parametrize("version", ["loose", "seven"])
async def test_a_chat_with_attachments_sends_its_last_message_alone(
    stage: Stage, version: str
) -> None:
    """The SDK sends all messages, and each file is in them as text; two of these are too much for
    one request."""
    asked = {"api": f"{stage.address}/v1/ai-sdk/agents/desk/chat", "text": "hello", "size": 9 << 20}
    plain, shown = [
        await stage.client.play(
            "attach", version=version, chat=f"{version}-{as_shown}", as_shown=as_shown, **asked
        )
        for as_shown in (False, True)
    ]
    assert plain["statuses"] == ["ready", "error", "error"]
    assert plain["errors"] == [TOO_LARGE] * 2
    assert shown == {"statuses": ["ready"] * 3, "errors": [], "last": ["You said: hello. "]}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_page_that_was_reloaded_goes_on_with_the_run(stage: Stage, version: str) -> None:
    """06/SV-20"""
    stage.desk.released.clear()
    release = f"{stage.address}/release"
    told = await stage.play("reconnect", version, text="wait", release=release)
    user, answer = told["messages"]
    said, call, text = parts_of(answer)
    assert told["loaded"] == [user]
    assert (said["text"], call["output"]) == ("One moment.", "waited")
    assert text["text"] == "So: waited"
    assert told["status_afterwards"] == 204
