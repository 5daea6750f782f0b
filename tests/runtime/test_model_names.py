"""Names of models nobody knows: what was probably meant comes first."""

from __future__ import annotations

import sys

import pytest

from awaken import Agent, Runtime
from awaken.errors import ConfigError

MEANT = {
    "gpt-5-mini": "openai:gpt-5-mini",
    "chatgpt-4o-latest": "openai:chatgpt-4o-latest",
    "o3-mini": "openai:o3-mini",
    "claude-sonnet-4-5": "anthropic:claude-sonnet-4-5",
    "gemini-3": "google:gemini-3",
    "grok-4": "xai:grok-4",
    "mistral-large-latest": "mistral:mistral-large-latest",
    "deepseek-reasoner": "deepseek:deepseek-reasoner",
    "kimi-k3": "moonshot:kimi-k3",
    "glm-4.6": "zai:glm-4.6",
    "openai/gpt-5": "openai:gpt-5",
    "openrouter/anthropic/claude-sonnet-4.5": "openrouter:anthropic/claude-sonnet-4.5",
    "opnai:gpt-5": "openai:gpt-5",
    "Anthropic:claude-opus-5": "anthropic:claude-opus-5",
    "open ai:gpt-5": "openai:gpt-5",
    "antropic/claude-opus-5": "anthropic:claude-opus-5",
    "locl": "local",
    "Demo": "demo",
    "olama": "ollama:…",
}


@pytest.mark.parametrize("name", MEANT)
def test_what_was_meant_is_guessed(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Runtime([Agent("a", model=name)])

    text = str(refused.value)
    assert text.startswith(f"model {name!r}: provider ")
    assert f" is unknown: did you mean {MEANT[name]!r}? Known: demo, local, openai:…" in text


@pytest.mark.parametrize(
    "name", ["papyrus:scroll-2", "scroll", "gpt-oss:20b", "meta/llama", "/", ""]
)
def test_nothing_is_guessed_where_nothing_is_near(name: str) -> None:
    with pytest.raises(ConfigError, match="is unknown; known: demo, local") as refused:
        Runtime([Agent("a", model=name)])
    assert "did you mean" not in str(refused.value)


@pytest.mark.parametrize(
    ("model", "module", "text"),
    [
        ("openai:gpt-5", "openai", "openai needs the extra 'openai'"),
        ("anthropic:c", "anthropic", "anthropic needs the extra 'anthropic'"),
        ("bedrock:c", "boto3", "bedrock needs the extra 'bedrock'"),
        ("vertex:c", "google.auth", "vertex needs the extra 'vertex'"),
        ("google:gemini-3", "google.genai", "google needs the extra 'google'"),
        ("google-vertex:gemini-3", "google.genai", "google-vertex needs the extra 'google'"),
    ],
)
def test_a_missing_extra_is_told_for_what_was_written(
    model: str, module: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ConfigError, match=f"^{text}: pip install"):
        Runtime([Agent("a", model=model)])
