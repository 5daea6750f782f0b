"""Servers known by name, and what is wrong with a configuration."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from mock_server import Answer, WireServer, sse
from openai import AsyncOpenAI

from awaken.core.llm import InferenceRequest, ProviderError, abilities_of
from awaken.core.message import Message
from awaken.core.secret import RedactedString
from awaken.errors import ConfigError
from awaken.models.openai import (
    AzureChat,
    ChatDialect,
    OpenAIChat,
    OpenAIResponses,
    open_azure,
    open_llamacpp,
    open_ollama,
    open_openai,
    open_openai_chat,
    open_openrouter,
    open_vllm,
)
from awaken.models.openai.open import ollama_url
from awaken.models.openai.providers import CHAT_PROVIDERS
from awaken.runtime.open_by_name import open_model

KEY = "sk-secret-0123456789abcdef"
NAMES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_API_VERSION",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_ENDPOINT",
    "OLLAMA_HOST",
    "OPENROUTER_API_KEY",
    "VLLM_BASE_URL",
    "VLLM_API_KEY",
    "LLAMACPP_BASE_URL",
    "LLAMA_API_KEY",
)


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


Open = Callable[[], OpenAIResponses | OpenAIChat]


@pytest.mark.parametrize(
    ("open_", "variables", "shown"),
    [
        (open_openai, {"OPENAI_API_KEY": KEY}, "('openai', 'https://api.openai.com/v1')"),
        (
            open_openai,
            {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://proxy.example/v1"},
            "('openai', 'https://proxy.example/v1')",
        ),
        (open_openai_chat, {"OPENAI_API_KEY": KEY}, "('openai-chat', 'https://api.openai.com/v1')"),
        (
            open_azure,
            {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "https://me.azure.example"},
            "('azure', 'https://me.azure.example')",
        ),
        (open_ollama, {}, "('ollama', 'http://localhost:11434/v1')"),
        (open_ollama, {"OLLAMA_HOST": "box:1234"}, "('ollama', 'http://box:1234/v1')"),
        (open_vllm, {}, "('vllm', 'http://localhost:8000/v1')"),
        (open_vllm, {"VLLM_BASE_URL": "http://gpu:1/v1"}, "('vllm', 'http://gpu:1/v1')"),
        (open_llamacpp, {}, "('llamacpp', 'http://localhost:8080/v1')"),
        (
            open_openrouter,
            {"OPENROUTER_API_KEY": KEY},
            "('openrouter', 'https://openrouter.ai/api/v1')",
        ),
    ],
)
def test_servers_by_name(
    open_: Open, variables: dict[str, str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    executor = open_()
    assert repr(executor) == type(executor).__name__ + shown
    assert KEY not in repr(vars(executor))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://localhost:11434/v1"),
        ("0.0.0.0", "http://localhost:11434/v1"),
        (":9999", "http://localhost:9999/v1"),
        ("box", "http://box:11434/v1"),
        ("[::1]:9", "http://[::1]:9/v1"),
        ("https://box.example/ollama/", "https://box.example/ollama/v1"),
    ],
)
def test_what_ollamas_host_may_be(host: str, url: str) -> None:
    assert ollama_url(host) == url


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (open_openai, "openai needs a key: export OPENAI_API_KEY, or give it as api_key"),
        (open_openrouter, "openrouter needs a key: export OPENROUTER_API_KEY"),
        (open_azure, "azure needs an endpoint: export AZURE_OPENAI_ENDPOINT"),
        (
            lambda: AzureChat(base_url="https://me.azure.example"),
            "azure needs a key: export AZURE_OPENAI_API_KEY",
        ),
        (lambda: OpenAIChat(base_url="box:1234"), "openai-chat: 'box:1234' is no address"),
        (lambda: OpenAIChat(base_url="http://[::1/v1"), "openai-chat: 'http://[::1/v1' is no addr"),
        (lambda: OpenAIChat(base_url="http://box:0x1"), "openai-chat: 'http://box:0x1' is no addr"),
        (lambda: ollama_url("box:99999"), "OLLAMA_HOST is 'box:99999', which is no address"),
        (lambda: OpenAIChat(api_key=KEY, timeout=0), "openai-chat: timeout is 0, it must be more"),
        (
            lambda: OpenAIChat(api_key=KEY, client=AsyncOpenAI(api_key=KEY)),
            "openai-chat: give api_key to the client, not beside it",
        ),
        (lambda: OpenAIResponses(api_key=KEY, name=" "), "needs a name"),
        (
            lambda: OpenAIResponses(api_key=KEY, reasoning_summary="short"),  # type: ignore[arg-type]
            "openai: Invalid enum value 'short'",
        ),
        (
            lambda: OpenAIChat(
                api_key=KEY,
                dialect=ChatDialect(system_role="boss"),  # type: ignore[arg-type]
            ),
            "openai-chat: Invalid enum value 'boss' - at `$.system_role`",
        ),
    ],
)
def test_a_bad_configuration_is_told_at_once(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        make()


@pytest.mark.parametrize("key", [KEY, RedactedString(KEY)])
def test_a_key_may_be_text_or_a_secret(key: str | RedactedString) -> None:
    assert KEY not in repr(OpenAIResponses(api_key=key))


def test_abilities_are_told() -> None:
    responses = abilities_of(OpenAIResponses(api_key=KEY), "gpt-5")
    assert responses.native_output
    assert responses.input == frozenset({"image", "document"})
    chat = abilities_of(OpenAIChat(api_key=KEY), "gpt-5")
    assert chat.native_output
    assert chat.input is None


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("open_", "variable", "suffix", "start"),
    [
        (open_ollama, "OLLAMA_HOST", "", "ollama serve"),
        (open_vllm, "VLLM_BASE_URL", "/v1", "vllm serve MODEL"),
        (open_llamacpp, "LLAMACPP_BASE_URL", "/v1", "llama-server -m MODEL.gguf"),
    ],
)
async def test_a_server_that_is_not_running_is_named_with_what_to_start(
    open_: Open, variable: str, suffix: str, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setenv(variable, url + suffix)
    model = open_()
    request = InferenceRequest(upstream_model="m", messages=[Message.user("Hi")])
    with pytest.raises(ProviderError, match="connection error: nothing answers at") as caught:
        await anext(aiter(model.execute_stream(request)))
    await model.aclose()
    assert f"{url}/v1" in str(caught.value)
    assert start in str(caught.value)


@pytest.mark.anyio
async def test_a_key_from_the_environment_reaches_its_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    answer = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    async with WireServer([Answer(pieces=sse(answer))]) as server:
        monkeypatch.setenv("VLLM_BASE_URL", f"{server.url}/v1")
        model = open_vllm()
        request = InferenceRequest(upstream_model="m", messages=[Message.user("Hi")])
        assert [event async for event in model.execute_stream(request)]
        await model.aclose()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_the_sdk_is_not_imported_before_an_executor_is_made() -> None:
    code = "import sys, awaken.models.openai; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


NAMED = "groq mistral deepseek xai together fireworks cerebras openrouter moonshot zai huggingface"


@pytest.mark.parametrize("name", NAMED.split())
def test_a_provider_of_the_table_is_opened_by_its_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = CHAT_PROVIDERS[name]
    for key in known.keys:
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(ConfigError, match=f"{name} needs a key: export {known.keys[0]}"):
        open_model(f"{name}:some-model")
    monkeypatch.setenv(known.keys[0], KEY)
    assert repr(open_model(f"{name}:some-model")) == f"OpenAIChat({name!r}, {known.url!r})"
