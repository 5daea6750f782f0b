"""Pictures and files as tool results, and results that are rewritten before they are logged."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from front_kit import Piece

from awaken import Agent, Phase, PhaseContext, Runtime, ToolResult, tool
from awaken.core.event import ToolCallDone
from awaken.core.inference import InferenceOverride
from awaken.core.llm import InferenceRequest
from awaken.core.message import Base64Source, BlobSource, Document, Image, Message, Text
from awaken.models.anthropic.request import prepare
from awaken.models.google.request import gemini_request
from awaken.models.openai.chat_request import chat_body
from awaken.models.openai.providers import OPENAI
from awaken.models.openai.responses_request import ResponsesOptions, responses_body
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio

SMALL = b"\x89PNG\r\n\x1a\n small"
LARGE = b"\x89PNG\r\n\x1a\n" + os.urandom(100_000)
CALL = tool_call_response("", "plot", "c1", {})


def plotter(*parts: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    @tool(effect="read")
    async def plot() -> Any:
        """Plot."""
        return list(parts) if len(parts) > 1 else parts[0]

    model = ScriptedModel([CALL, "seen", "still there"])
    return Agent("a", model=model, tools=[plot], **options), model


def written(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.rglob("*") if file.is_file()]


def sources(message: Message) -> list[Any]:
    return [block.source for block in message.content if isinstance(block, Image | Document)]


async def test_a_tool_returns_texts_pictures_and_files(tmp_path: Path) -> None:
    """08 §0 (c): the model is shown them, the log keeps them, events say what there is."""
    page = tmp_path / "page.pdf"
    page.write_bytes(b"%PDF small")
    agent, model = plotter(Text("the plot"), Image.from_bytes(SMALL), Image.from_bytes(LARGE), page)
    told: list[ToolCallDone] = []
    async with Runtime([agent], store=f"sqlite:///{tmp_path}/a.db") as runtime:
        async with runtime.stream("a", "go", thread="t") as events:
            async for event in events:
                if isinstance(event.event, ToolCallDone):
                    told.append(event.event)
        await runtime.run("a", "again", thread="t")
        (logged,) = [m for m in await runtime.messages("t") if m.tool_call_id]

    assert told[0].result.content == ()
    assert told[0].result.message == "the plot\n[image]\n[image]\n[document]"
    assert logged.text() == "the plot"
    small, large, pdf = sources(logged)
    assert b64decode(small.data) == SMALL
    assert isinstance(large, BlobSource)
    assert large.size == len(LARGE)
    assert pdf.media_type == "application/pdf"
    for request in model.requests[1:]:
        (shown,) = [m for m in request.messages if m.tool_call_id]
        assert [b64decode(source.data) for source in sources(shown)] == [
            SMALL,
            LARGE,
            b"%PDF small",
        ]


async def test_a_picture_alone_is_a_result_and_a_list_without_one_is_json() -> None:
    for value, text in ((Image.from_bytes(SMALL), ""), (["a", "b"], '["a","b"]')):
        agent, _ = plotter(value)
        async with Runtime([agent]) as runtime:
            assert (await runtime.run("a", "go", thread="t")).ok
            (logged,) = [m for m in await runtime.messages("t") if m.tool_call_id]
        assert logged.text() == text
    with pytest.raises(ValueError, match="give media_type"):
        Image.from_bytes(b"what?")
    assert Image.from_bytes(b"x", "image/avif").source == Base64Source(
        media_type="image/avif", data="eA=="
    )


WIRES: dict[str, Callable[[InferenceRequest], Any]] = {
    "chat": lambda request: chat_body(request, OPENAI, "openai"),
    "responses": lambda request: responses_body(request, ResponsesOptions(), "openai"),
    "anthropic": lambda request: prepare(request).options,
    "google": gemini_request,
}


@pytest.mark.parametrize("wire", WIRES)
def test_a_picture_in_a_result_is_on_every_wire(wire: str) -> None:
    picture = Image.from_bytes(SMALL)
    messages = [
        Message.user("go"),
        Message.assistant_with_tool_calls("", CALL.tool_calls),
        Message.tool_with_content("c1", (Text("the plot"), picture)),
    ]
    request = InferenceRequest(
        upstream_model="gemini-3-pro", messages=messages, overrides=InferenceOverride()
    )
    body = repr(WIRES[wire](request))
    assert isinstance(picture.source, Base64Source)
    assert "the plot" in body
    assert picture.source.data in body or repr(SMALL) in body


# -- rewriting --------------------------------------------------------------------------------


async def test_a_secret_in_a_result_is_never_written(tmp_path: Path) -> None:
    """Hooks, events, the log and the model get the result as it was rewritten."""
    seen: list[str] = []

    async def redact(ctx: PhaseContext, result: ToolResult) -> ToolResult:
        assert ctx.tool_name == "plot"
        text = (result.message or "").replace("s3cret", "…")
        return ToolResult.success_with_message(result.tool_name, None, text)

    async def after(ctx: PhaseContext) -> None:
        assert ctx.tool_result is not None
        seen.append(ctx.tool_result.model_text())

    def register(registrar: Any) -> None:
        registrar.result(redact)
        registrar.hook(Phase.AFTER_TOOL_EXECUTE, after)

    agent, model = plotter("the key is s3cret", plugins=[Piece("redact", register)])
    store = f"sqlite:///{tmp_path}/a.db"
    async with (
        Runtime([agent], store=store) as runtime,
        runtime.stream("a", "go", thread="t") as events,
    ):
        seen += [str(event) async for event in events]

    assert "the key is …" in seen
    assert not [text for text in seen if "s3cret" in text]
    assert model.requests[1].messages[-1].text() == "the key is …"
    assert not any(b"s3cret" in content for content in written(tmp_path))


async def test_a_result_is_withheld_if_it_cannot_be_rewritten() -> None:
    async def broken(ctx: PhaseContext, result: ToolResult) -> Any:
        return None

    piece = Piece("redact", lambda registrar: registrar.result(broken))
    agent, model = plotter("the key is s3cret", plugins=[piece])
    async with Runtime([agent]) as runtime:
        assert (await runtime.run("a", "go")).unwrap() == "seen"
    told = model.requests[1].messages[-1].text()
    assert told == "the result is withheld: plugin 'redact' failed to look at it"
