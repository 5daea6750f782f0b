"""Keys and passwords do not show where objects and addresses do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from awaken import RedactedString, Runtime
from awaken.codec import dumps_text, to_json
from awaken.core.inference import InferenceOverride
from awaken.core.llm import InferenceRequest, preview_of
from awaken.core.message import Message, Text
from awaken.core.secret import redact_address
from awaken.errors import ConfigError
from awaken.models.anthropic import AnthropicMessages, BedrockMessages, VertexMessages
from awaken.models.bedrock import BedrockConverse
from awaken.models.google import GoogleGemini
from awaken.models.openai import AzureChat, OpenAIChat, OpenAIResponses

KEY = "sk-SECRETSECRETSECRET"
EXECUTORS: dict[str, Callable[[], Any]] = {
    "bedrock converse": lambda: BedrockConverse(
        api_key=KEY, region="eu-west-1", default_headers={"x-key": KEY}
    ),
    "gemini": lambda: GoogleGemini(api_key=KEY, headers={"authorization": KEY}),
    "gemini at an address": lambda: GoogleGemini(api_key="k", base_url=f"https://u:{KEY}@x/"),
    "vertex by key": lambda: GoogleGemini(api_key=KEY, vertex=True),
    "openai": lambda: OpenAIChat(api_key=KEY, base_url=f"https://u:{KEY}@x/"),
    "responses": lambda: OpenAIResponses(api_key=KEY),
    "azure": lambda: AzureChat(api_key=KEY, base_url=f"https://u:{KEY}@x/"),
    "anthropic": lambda: AnthropicMessages(api_key=KEY),
    "bedrock": lambda: BedrockMessages(access_key="a", secret_key=KEY, region="r"),
    "vertex": lambda: VertexMessages(access_token=KEY, project="p", region="r"),
}


def kept_by(value: Any, place: str, seen: set[int]) -> list[str]:
    """The places in an object of ours where a text with the key is kept."""
    if id(value) in seen or isinstance(value, RedactedString):
        return []
    seen.add(id(value))
    if isinstance(value, str):
        return [place] if KEY in value else []
    inside: dict[str, Any] = {}
    if isinstance(value, dict):
        inside = {f"[{name!r}]": each for name, each in value.items()}
    elif isinstance(value, list | tuple):
        inside = {f"[{index}]": each for index, each in enumerate(value)}
    elif type(value).__module__.startswith("awaken."):
        names = [*getattr(value, "__dict__", ()), *getattr(value, "__slots__", ())]
        inside = {f".{name}": getattr(value, name, None) for name in names}
    return [found for name, each in inside.items() for found in kept_by(each, place + name, seen)]


@pytest.mark.parametrize("name", EXECUTORS)
def test_no_attribute_of_an_executor_shows_its_key(name: str) -> None:
    executor = EXECUTORS[name]()
    base_urls = {"executor._base_url"}  # the address itself is needed; its repr hides the password
    assert set(kept_by(executor, "executor", set())) <= base_urls
    assert KEY not in repr(executor)
    if name != "gemini at an address":
        assert KEY not in repr(vars(executor))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:pw@db:5432/x", "postgresql://***@db:5432/x"),
        ("postgresql://ann:p/w#@db/x", "postgresql://***@db/x"),
        ("postgresql://ann:p w\n@db/x", "postgresql://***@db/x"),
        ("pg://db/x?password=p w&sslmode=on", "pg://db/x?password=***&sslmode=on"),
        ("nats://token@host", "nats://***@host"),
        ("pg://db/x?user=ann&password=pw&sslmode=on", "pg://db/x?user=ann&password=***&sslmode=on"),
        ("https://x/v1?api_key=pw", "https://x/v1?api_key=***"),
        ("https://x/v1?sig=a%2Fb#f", "https://x/v1?sig=***#f"),
        ("sqlite:///a/b.db?synchronous=full", "sqlite:///a/b.db?synchronous=full"),
    ],
)
def test_a_shown_address_has_no_password(address: str, shown: str) -> None:
    assert redact_address(address) == shown


@pytest.mark.parametrize(
    "make",
    [
        lambda url: Runtime([], store=f"mongodb{url}"),
        lambda url: Runtime([], store=f"memory{url}"),
        lambda url: Runtime([], store=f"sqlite{url}"),
        lambda url: Runtime([], store=f"sqlite:///x.db?password={KEY}"),
        lambda url: OpenAIChat(api_key="k", base_url=f"ftp{url}"),
        lambda url: AnthropicMessages(api_key="k", base_url=f"ftp{url}"),
        lambda url: GoogleGemini(api_key="k", base_url=f"ftp{url}"),
    ],
)
def test_an_error_about_an_address_does_not_repeat_its_password(make: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make(f"://ann:{KEY}@host/x")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", EXECUTORS)
def test_a_preview_shows_what_is_asked_and_no_key(name: str) -> None:
    """07 §6.1: the body for the provider, as JSON."""
    executor = EXECUTORS[name]()
    request = InferenceRequest(
        upstream_model="claude-sonnet-4-5",
        messages=[Message.user("what is the time?")],
        system=(Text(text="Be brief."),),
        overrides=InferenceOverride(temperature=0.5, max_tokens=100),
    )

    body = to_json(preview_of(executor, request))

    written = dumps_text(body)
    assert "what is the time?" in written
    assert "Be brief." in written
    assert "0.5" in written
    assert KEY not in written
