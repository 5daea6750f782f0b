"""Keys, whoever they are for: a bad one is refused before anything is sent, and never shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from awaken import Agent, Runtime
from awaken.core.secret import RedactedString
from awaken.errors import ConfigError
from awaken.models.anthropic import AnthropicMessages, BedrockMessages, VertexMessages
from awaken.models.google import GoogleGemini
from awaken.models.openai import AzureChat, OpenAIChat, OpenAIResponses
from awaken.models.sdk import find_key, secret

VARIABLES = {
    "openai:m": "OPENAI_API_KEY",
    "openai-chat:m": "OPENAI_API_KEY",
    "azure:m": "AZURE_OPENAI_API_KEY",
    "openrouter:m": "OPENROUTER_API_KEY",
    "vllm:m": "VLLM_API_KEY",
    "llamacpp:m": "LLAMA_API_KEY",
    "anthropic:m": "ANTHROPIC_API_KEY",
    "bedrock:m": "AWS_BEARER_TOKEN_BEDROCK",
    "google:m": "GEMINI_API_KEY",
}


@pytest.fixture(autouse=True)
def _places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.azure.example")
    monkeypatch.setenv("AWS_REGION", "r")


@pytest.mark.parametrize("model", VARIABLES)
def test_a_broken_key_in_the_environment_is_named_by_its_variable(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLES[model], "sk-secret…rest")

    with pytest.raises(ConfigError) as refused:
        Runtime([Agent("a", model=model)])

    text = str(refused.value)
    assert text.startswith(f"{model.partition(':')[0]}: {VARIABLES[model]} has '…' in it")
    assert "secret" not in text


GIVEN: dict[str, tuple[Callable[[str], Any], str]] = {
    "openai": (lambda key: OpenAIResponses(api_key=key), "api_key"),
    "openai-chat": (lambda key: OpenAIChat(base_url="http://box/v1", api_key=key), "api_key"),
    "azure": (lambda key: AzureChat(api_key=key), "api_key"),
    "anthropic": (lambda key: AnthropicMessages(api_key=key), "api_key"),
    "bedrock": (lambda key: BedrockMessages(access_key="AK", secret_key=key), "secret_key"),
    "vertex": (
        lambda key: VertexMessages(project="p", region="r", access_token=key),
        "access_token",
    ),
    "google": (lambda key: GoogleGemini(api_key=key), "api_key"),
    "google-vertex": (lambda key: GoogleGemini(api_key=key, vertex=True), "api_key"),
}


@pytest.mark.parametrize("provider", GIVEN)
def test_a_broken_key_that_is_given_is_named_by_its_argument(provider: str) -> None:
    make, argument = GIVEN[provider]

    with pytest.raises(ConfigError, match=f"^{provider}: {argument} has ' ' in it"):
        make("sk secret")


@pytest.mark.parametrize(
    "key",
    ["sk…cret", "sk cret", '"skcret"', "'skcret'", "sk\ncret", "sk\tcret", "skcrét", "sk\0cret"],
)
def test_what_no_key_has_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="which no key has: copy it again") as refused:
        secret(key, ["K"], provider="lab")
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize("key", ["sk-proj_A1.b/c+d==", "a|b~c!", "k"])
@pytest.mark.parametrize("wrap", [str, RedactedString])
def test_white_space_around_a_key_is_no_part_of_it(
    key: str, wrap: Callable[[str], str | RedactedString], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line end of `$(cat key.txt)` or of a copied line does no harm, whoever it is for."""
    assert secret(wrap(f" {key}\r\n"), ["K"], provider="lab").expose_secret() == key
    monkeypatch.setenv("K", f"\t{key} ")
    assert secret(None, ["K"], provider="lab").expose_secret() == key


def test_a_blank_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", " ")
    assert find_key(" ", ["EMPTY", "MISSING"], provider="lab") is None
    monkeypatch.setenv("MISSING", "k")
    found = find_key(None, ["EMPTY", "MISSING"], provider="lab")
    assert found is not None
    assert found.expose_secret() == "k"
    with pytest.raises(ConfigError, match=re.escape("lab needs a key: export EMPTY, or give it")):
        secret(None, ["EMPTY"], provider="lab")
