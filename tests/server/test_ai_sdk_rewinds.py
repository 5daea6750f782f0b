"""Answers that are given once more, and edited questions, with the AI SDK's own clients."""

from __future__ import annotations

import pytest
from chat_kit import VERSIONS, Desk, application, chat_client
from server_kit import served

from awaken import Runtime

pytestmark = pytest.mark.anyio


async def test_an_answer_is_regenerated_and_a_question_edited() -> None:
    """06/SV-20"""
    desk = Desk()
    async with (
        chat_client() as client,
        Runtime(desk.agents) as runtime,
        served(application(runtime, desk)) as address,
    ):
        api = f"{address}/v1/ai-sdk/agents/desk/chat"
        for index, version in enumerate(VERSIONS):
            told = await client.play(
                "regenerate", version=version, api=api, chat=version, text="count", edited="hello"
            )
            shown = [
                [message["parts"][-1]["text"] for message in messages]
                for messages in (told["first"], told["second"], told["messages"])
            ]
            assert shown == [
                ["count", f"number {2 * index + 1}"],
                ["count", f"number {2 * index + 2}"],
                ["hello", "You said: hello. "],
            ]
            assert (told["status"], told.get("error")) == ("ready", None)
            log = [message.text() for message in await runtime.messages(version)]
            assert log == ["hello", "You said: hello. "]
