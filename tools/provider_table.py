"""The table of docs/providers.md: what becomes of each setting, asked of the adapters themselves.

Run it to write the table again: `python tools/provider_table.py`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

from awaken.core.inference import EffortWord, InferenceOverride
from awaken.core.llm import InferenceRequest, InvalidRequest, abilities_of, preview_of
from awaken.core.message import Message
from awaken.core.tool import ToolDescriptor
from awaken.models.anthropic import AnthropicMessages, BedrockMessages, VertexMessages
from awaken.models.bedrock import BedrockConverse
from awaken.models.google import GoogleGemini
from awaken.models.openai import AzureChat, OpenAIChat, OpenAIResponses
from awaken.models.openai.providers import CHAT_PROVIDERS

PAGE = Path(__file__).parents[1] / "docs" / "providers.md"
_TABLE = re.compile(r"(?<=<!-- table -->\n).*(?=<!-- end of table -->)", re.DOTALL)

MODELS = {
    "openai": "gpt-4.1 gpt-5 gpt-5.1 gpt-5.6 o3",
    "openai-chat": "gpt-4.1 gpt-5",
    "azure": "gpt-5",
    "anthropic": "claude-haiku-4-5 claude-opus-4-6 claude-sonnet-5 claude-opus-5-5",
    "bedrock": "us.anthropic.claude-sonnet-5",
    "bedrock-converse": "amazon.nova-pro-v1:0",
    "vertex": "claude-sonnet-5",
    "google": "gemini-2.5-flash gemini-2.5-pro gemini-3-flash gemini-3-pro",
    "google-vertex": "gemini-3-flash",
    "groq": "llama-3.3-70b-versatile openai/gpt-oss-120b qwen/qwen3-32b",
    "mistral": "mistral-large-latest mistral-small-latest",
    "deepseek": "deepseek-v4-flash deepseek-chat",
    "xai": "grok-3-mini grok-4 grok-4.3 grok-4.5",
    "together": "openai/gpt-oss-120b Qwen/Qwen3-32B",
    "fireworks": "accounts/fireworks/models/kimi-k2",
    "cerebras": "gpt-oss-120b llama-3.3-70b",
    "openrouter": "any/model",
    "moonshot": "kimi-k2.6 kimi-k3 moonshot-v1-32k",
    "zai": "glm-4.6 glm-5.3",
    "huggingface": "openai/gpt-oss-120b Qwen/Qwen3-32B",
    "ollama, vllm, llamacpp": "any",
}
SETTINGS: dict[str, dict[str, Any]] = {
    "`temperature`": {"temperature": 0.5},
    "`top_p`": {"top_p": 0.5},
    "`max_tokens`": {"max_tokens": 9},
    "`seed`": {"seed": 3},
    "`stop`": {"stop": ["END"]},
    "`parallel_tool_calls`": {"parallel_tool_calls": False},
}
"""Settings with a column each; `tool_choice` and `reasoning_effort` have columns of their own."""
_OWN: dict[str, Callable[[], Any]] = {
    "openai": partial(OpenAIResponses, api_key="sk-1"),
    "openai-chat": partial(OpenAIChat, api_key="sk-1"),
    "azure": partial(AzureChat, base_url="https://a.openai.azure.com", api_key="sk-1"),
    "anthropic": partial(AnthropicMessages, api_key="sk-1"),
    "bedrock": partial(BedrockMessages, region="us-east-1", api_key="sk-1"),
    "bedrock-converse": partial(BedrockConverse, region="us-east-1", api_key="sk-1"),
    "vertex": partial(VertexMessages, project="p", region="global", access_token="sk-1"),
    "google": partial(GoogleGemini, api_key="sk-1"),
    "google-vertex": partial(GoogleGemini, vertex=True, api_key="sk-1"),
}
_LOOK = ToolDescriptor(id="look", name="look", description="Look.")


def table() -> str:
    """The table, one line for each model."""
    head = ["model", *SETTINGS, "`tool_choice`", "`reasoning_effort`", "structured output"]
    rows = [head, ["---"] * len(head)]
    log = logging.getLogger("awaken.llm")
    level = log.level
    log.setLevel(logging.ERROR)
    for provider, models in MODELS.items():
        executor = _executor(provider)
        rows += [_row(provider, executor, model) for model in models.split()]
    log.setLevel(level)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def page_with(table: str) -> str:
    """The page with this table in it."""
    return _TABLE.sub(table, PAGE.read_text())


def _executor(provider: str) -> Any:
    if provider in _OWN:
        return _OWN[provider]()
    known = CHAT_PROVIDERS.get(provider)
    return OpenAIChat(base_url=known.url if known else "http://localhost:1", api_key="sk-1")


def _row(provider: str, executor: Any, model: str) -> list[str]:
    outcomes = [_outcome(executor, model, **setting) for setting in SETTINGS.values()]
    native = abilities_of(executor, model).native_output
    name = f"`{provider}:{model}`" if "," not in provider else provider
    words = [_choices(executor, model), _efforts(executor, model), "schema" if native else "tool"]
    return [name, *outcomes, *words]


def _outcome(executor: Any, model: str, **setting: Any) -> str:
    try:
        body = _body(executor, model, **setting)
    except InvalidRequest:
        return "**refused**"
    return "sent" if body != _body(executor, model) else "dropped"


def _choices(executor: Any, model: str) -> str:
    forced = _outcome(executor, model, tool_choice="required")
    none = _outcome(executor, model, tool_choice="none")
    return forced if forced == none else f"{forced}, `none` {none}"


def _efforts(executor: Any, model: str) -> str:
    """The words that are sent for ours."""
    words = get_args(EffortWord)
    bodies = [_body(executor, model, reasoning_effort=word) for word in words]
    if all(body == _body(executor, model) for body in bodies):
        return "dropped"
    pairs = zip(words, map(_effort_in, bodies), strict=True)
    return ", ".join(["sent", *(f"{word} as {sent}" for word, sent in pairs if word != sent)])


def _effort_in(body: dict[str, Any]) -> str:
    """The effort that a request asks for, in a word or a few."""
    config = body.get("config", {}).get("thinking_config", {})
    if config:
        return str(config.get("thinking_level") or config["thinking_budget"] or "none").lower()
    thinking = body.get("thinking", {})
    word = (
        body.get("reasoning_effort")
        or body.get("reasoning", {}).get("effort")
        or body.get("output_config", {}).get("effort")
        or thinking.get("budget_tokens")
    )
    if word is None:
        return "on" if thinking.get("type") == "enabled" else "none"
    return str(word)


def _body(executor: Any, model: str, **setting: Any) -> dict[str, Any]:
    overrides = InferenceOverride(**setting)
    body: Any = preview_of(
        executor,
        InferenceRequest(
            upstream_model=model,
            messages=[Message.user("Hi")],
            tools=(_LOOK,),
            overrides=overrides,
        ),
    )
    assert isinstance(body, dict)
    return body


def main() -> None:
    PAGE.write_text(page_with(table()))


if __name__ == "__main__":
    main()
