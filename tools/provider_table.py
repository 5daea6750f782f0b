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

from awaken.contract.llm import InferenceRequest, InvalidRequest, abilities_of, preview_of
from awaken.domain.inference import EffortWord, InferenceOverride
from awaken.domain.message import Message
from awaken.domain.tool import ToolDescriptor
from awaken.llm.anthropic import AnthropicMessages
from awaken.llm.bedrock import BedrockConverse
from awaken.llm.google import GoogleGemini
from awaken.llm.openai import OpenAIChat, OpenAIResponses
from awaken.llm.openai.providers import CHAT_PROVIDERS

PAGE = Path(__file__).parents[1] / "docs" / "providers.md"
_TABLE = re.compile(r"(?<=<!-- table -->\n).*(?=<!-- end of table -->)", re.DOTALL)

MODELS = {
    "openai": "gpt-4.1 gpt-5 gpt-5.1 gpt-5.6 o3",
    "openai-chat": "gpt-4.1 gpt-5",
    "anthropic": "claude-haiku-4-5 claude-opus-4-6 claude-sonnet-5",
    "bedrock-converse": "amazon.nova-pro-v1:0",
    "google": "gemini-2.5-flash gemini-3-pro",
    "groq": "llama-3.3-70b-versatile openai/gpt-oss-120b qwen/qwen3-32b",
    "mistral": "mistral-large-latest mistral-small-latest",
    "deepseek": "deepseek-v4-flash deepseek-reasoner",
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
    "`tool_choice`": {"tool_choice": "required"},
    "`parallel_tool_calls`": {"parallel_tool_calls": False},
}
_OWN: dict[str, Callable[..., Any]] = {
    "openai": OpenAIResponses,
    "openai-chat": OpenAIChat,
    "anthropic": AnthropicMessages,
    "bedrock-converse": partial(BedrockConverse, region="us-east-1"),
    "google": GoogleGemini,
}
_LOOK = ToolDescriptor(id="look", name="look", description="Look.")


def table() -> str:
    """The table, one line for each model."""
    head = ["model", *SETTINGS, "`reasoning_effort`", "structured output"]
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
        return _OWN[provider](api_key="sk-1")
    known = CHAT_PROVIDERS.get(provider)
    return OpenAIChat(base_url=known.url if known else "http://localhost:1", api_key="sk-1")


def _row(provider: str, executor: Any, model: str) -> list[str]:
    outcomes = [_outcome(executor, model, **setting) for setting in SETTINGS.values()]
    native = abilities_of(executor, model).native_output
    name = f"`{provider}:{model}`" if "," not in provider else provider
    return [name, *outcomes, _efforts(executor, model), "schema" if native else "tool"]


def _outcome(executor: Any, model: str, **setting: Any) -> str:
    try:
        body = _body(executor, model, **setting)
    except InvalidRequest:
        return "**refused**"
    return "sent" if body != _body(executor, model) else "dropped"


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
