"""Claude at Bedrock and Vertex, through the SDK's own clients for them."""

from __future__ import annotations

import json
import struct
import sys
from base64 import b64encode
from contextlib import aclosing
from typing import Any
from zlib import crc32

import anthropic
import pytest
from mock_server import Answer, WireServer, sse

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.inference import StopReason, StreamResult
from awaken.core.llm import (
    InferenceExecutionError,
    InferenceRequest,
    InferenceTimeout,
    LlmStreamEvent,
    RateLimited,
    Unauthorized,
)
from awaken.core.message import Message
from awaken.errors import ConfigError
from awaken.models.anthropic import (
    AnthropicMessages,
    BedrockMessages,
    VertexMessages,
    open_bedrock,
    open_vertex,
)

pytestmark = pytest.mark.anyio

MODEL = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
ANSWER: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": MODEL,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 5},
    },
    {"type": "message_stop"},
]


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Nothing of the machine the tests run on."""
    for name in (
        "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK",
        "CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION", "ANTHROPIC_VERTEX_PROJECT_ID",
        "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def request(text: str = "hello", model: str = MODEL) -> InferenceRequest:
    return InferenceRequest(upstream_model=model, messages=[Message.user(text)])


async def answer(executor: AnthropicMessages, asked: InferenceRequest) -> StreamResult:
    accumulator = StreamAccumulator()
    event: LlmStreamEvent
    async for event in executor.execute_stream(asked):
        accumulator.push(event)
    return accumulator.finish()


async def failure(executor: AnthropicMessages, asked: InferenceRequest) -> InferenceExecutionError:
    with pytest.raises(InferenceExecutionError) as raised:
        await answer(executor, asked)
    return raised.value


# -- Bedrock ------------------------------------------------------------------------------------


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """A message of AWS's event stream encoding."""
    packed = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value))
        + value.encode()
        for name, value in headers.items()
    )  # fmt: skip
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    message = prelude + struct.pack(">I", crc32(prelude)) + packed + payload
    return message + struct.pack(">I", crc32(message))


def chunk(event: dict[str, Any]) -> bytes:
    data = json.dumps({"bytes": b64encode(json.dumps(event).encode()).decode()})
    return frame(
        {":message-type": "event", ":event-type": "chunk", ":content-type": "application/json"},
        data.encode(),
    )


def framed(*pieces: bytes) -> Answer:
    return Answer(pieces=pieces, headers={"content-type": "application/vnd.amazon.eventstream"})


async def test_bedrock_answers_in_its_own_framing_to_signed_requests() -> None:
    async with (
        WireServer([framed(*map(chunk, ANSWER))]) as wire,
        aclosing(
            BedrockMessages(
                region="eu-west-1", access_key="AKIA", secret_key="s3cret", base_url=wire.url
            )
        ) as executor,
    ):
        result = await answer(executor, request())
        assert executor.name == "bedrock"
        assert executor.abilities(MODEL).native_output
    assert result.text() == "ok"
    assert result.stop_reason is StopReason.END_TURN
    got = wire.requests[0]
    assert got.path.startswith("/model/us.anthropic.claude-haiku-4-5")
    assert got.path.endswith("/invoke-with-response-stream")
    assert got.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIA/")
    assert "/eu-west-1/bedrock/" in got.headers["authorization"]


async def test_bedrocks_errors_are_ours() -> None:
    throttled = Answer(status=429, pieces=[b'{"message": "Too many requests"}'])
    async with (
        WireServer([throttled]) as wire,
        aclosing(BedrockMessages(api_key="b-key", region="r", base_url=wire.url)) as executor,
    ):
        error = await failure(executor, request())
    assert type(error) is RateLimited
    assert error.message == "HTTP 429: Too many requests"


@pytest.mark.parametrize(
    ("code", "kind"),
    [("throttlingException", RateLimited), ("modelTimeoutException", InferenceTimeout)],
)
async def test_bedrocks_errors_in_mid_stream_keep_their_class(
    code: str, kind: type[InferenceExecutionError]
) -> None:
    said = frame(
        {":message-type": "exception", ":exception-type": code}, b'{"message": "Please wait"}'
    )
    async with (
        WireServer([framed(*map(chunk, ANSWER[:3]), said)]) as wire,
        aclosing(BedrockMessages(api_key="b-key", region="r", base_url=wire.url)) as executor,
    ):
        error = await failure(executor, request())
    assert type(error) is kind
    assert "Please wait" in error.message


async def test_a_bedrock_key_stands_for_credentials_and_the_version_fits_the_model() -> None:
    played = framed(*map(chunk, ANSWER))
    async with (
        WireServer([played, played]) as wire,
        aclosing(BedrockMessages(api_key="b-key", region="r", base_url=wire.url)) as executor,
    ):
        assert (await answer(executor, request())).text() == "ok"
        await answer(executor, request(model="anthropic.claude-opus-5"))
    older, newer = wire.requests
    assert older.headers["authorization"] == "Bearer b-key"
    assert older.body["anthropic_version"] == "bedrock-2023-05-31"
    assert newer.body["anthropic_version"] == "2026-10-21"


async def test_missing_aws_credentials_are_named() -> None:
    async with aclosing(BedrockMessages(region="eu-west-1")) as executor:
        error = await failure(executor, request())
    assert type(error) is Unauthorized
    assert "AWS_ACCESS_KEY_ID" in error.message


def test_a_missing_aws_region_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="export AWS_REGION or AWS_DEFAULT_REGION"):
        open_bedrock()
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert open_bedrock().name == "bedrock"


def test_half_of_the_aws_credentials_is_refused() -> None:
    with pytest.raises(ConfigError, match="belong together"):
        BedrockMessages(region="r", access_key="AKIA")
    with pytest.raises(ConfigError, match="keep one"):
        BedrockMessages(region="r", api_key="k", access_key="AKIA", secret_key="s")


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="nobody"):
        BedrockMessages(profile="nobody")


# -- Vertex -------------------------------------------------------------------------------------


async def test_vertex_is_asked_at_its_own_address() -> None:
    async with (
        WireServer([Answer(pieces=sse(*ANSWER, names=True))]) as wire,
        aclosing(
            VertexMessages(project="p1", region="europe-west1", access_token="t", base_url=wire.url)
        ) as executor,
    ):
        assert (await answer(executor, request(model="claude-opus-5"))).text() == "ok"
        assert executor.name == "vertex"
        assert not executor.abilities("claude-opus-5").native_output
    got = wire.requests[0]
    assert got.path == (
        "/projects/p1/locations/europe-west1/publishers/anthropic/models/"
        "claude-opus-5:streamRawPredict"
    )
    assert got.headers["authorization"] == "Bearer t"
    assert got.body["stream"] is True


async def test_missing_google_credentials_are_unauthorized() -> None:
    async with aclosing(VertexMessages(project="p1", region="global")) as executor:
        assert type(await failure(executor, request())) is Unauthorized


def test_missing_google_settings_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_VERTEX_PROJECT_ID or GOOGLE_CLOUD_PROJECT"):
        open_vertex()
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p1")
    with pytest.raises(ConfigError, match="CLOUD_ML_REGION or GOOGLE_CLOUD_LOCATION"):
        open_vertex()
    monkeypatch.setenv("CLOUD_ML_REGION", "global")
    assert open_vertex().name == "vertex"


# -- both ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [("boto3", BedrockMessages, "bedrock"), ("google.auth", VertexMessages, "vertex")],
)
def test_a_missing_library_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, make: Any, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"pip install 'awaken\[{extra}\]'"):
        make()


def test_ones_own_client_says_where_it_goes() -> None:
    client = anthropic.AsyncAnthropicBedrock(aws_region="r", api_key="k")
    assert AnthropicMessages(client=client).name == "bedrock"
    vertex = anthropic.AsyncAnthropicVertex(region="r", project_id="p", access_token="t")
    assert AnthropicMessages(client=vertex).name == "vertex"
