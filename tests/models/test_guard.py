"""Models are not sent what they cannot read."""

from __future__ import annotations

import pytest

from awaken.core.answer_stream import StreamListener
from awaken.core.llm import InferenceRequest, InvalidRequest
from awaken.core.message import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolResultBlock,
    ToolUse,
    UrlSource,
    Video,
)
from awaken.models.modality_guard import ModalityGuard
from awaken.models.retry import LlmRetryPolicy, RetryingExecutor
from awaken.testing import ScriptedModel

pytestmark = pytest.mark.anyio

PICTURE = Image(source=Base64Source(media_type="image/png", data="aGk="))
SOUND = Audio(source=UrlSource(url="https://example.org/a.mp3"))
FILM = Video(source=UrlSource(url="https://example.org/a.mp4"))
PAPER = Document(source=Base64Source(media_type="application/pdf", data="aGk="))
LINKED_PAPER = Document(source=UrlSource(url="https://example.org/A.PDF?page=2"))
NOTE = Document(source=Base64Source(media_type="text/plain", data="aGk="))


def guarded(*reads: str) -> tuple[ModalityGuard, ScriptedModel]:
    model = ScriptedModel(["fine"])
    return ModalityGuard(RetryingExecutor(model, LlmRetryPolicy()), "m", reads), model


async def ask(guard: ModalityGuard, *content: ContentBlock) -> None:
    messages = [Message.user("look"), Message.user_with_content([Text(text="at"), *content])]
    await guard.drive(InferenceRequest(upstream_model="m", messages=messages), StreamListener())


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (PICTURE, "Image"),
        (SOUND, "Audio"),
        (FILM, "Video"),
        (PAPER, "Pdf"),
        (LINKED_PAPER, "Pdf"),
        (ToolResultBlock(tool_use_id="1", content=(Text(text="see"), PICTURE)), "Image"),
    ],
)
async def test_what_a_model_does_not_read_is_refused_before_it_is_asked(
    block: ContentBlock, kind: str
) -> None:
    """02/6.6"""
    guard, model = guarded("text")
    with pytest.raises(InvalidRequest) as caught:
        await ask(guard, block)
    where = "messages[1].content[1]"
    assert str(caught.value) == (
        f"invalid request: model 'm' does not support {kind} input at {where}"
    )
    assert model.calls == 0


@pytest.mark.parametrize(
    "block", [Text(text="x"), Thinking(thinking="x"), ToolUse(id="1", name="t", input={}), NOTE]
)
async def test_text_in_any_form_passes(block: ContentBlock) -> None:
    """02/6.6"""
    guard, model = guarded("text")
    await ask(guard, block)
    assert model.calls == 1


async def test_what_is_declared_passes() -> None:
    guard, model = guarded("text", "image", "pdf")
    await ask(guard, PICTURE, PAPER, LINKED_PAPER)
    assert model.calls == 1
