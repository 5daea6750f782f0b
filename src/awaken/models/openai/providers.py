"""The providers with a chat completions API: where they are, what they can and refuse.

The adapters have no conditions for single providers or models. What is special about a server or
one of its models is a field of its dialect, and a line in the table of providers.
"""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from awaken.core.value import Value

Setting = Literal[
    "temperature",
    "top_p",
    "reasoning_effort",
    "seed",
    "stop",
    "tool_choice",
    "forced_tool_choice",
    "parallel_tool_calls",
]
"""A setting of a model; `forced_tool_choice` is a `tool_choice` of `required` or of a tool."""


class ChatDialect(Value, frozen=True, kw_only=True):
    """The differences between servers with a chat completions API.

    Args:
        max_tokens_field: the name of the field for the most tokens of an answer.
        system_role: the role of the system prompt.
        later_system_role: the role of system messages within the conversation. The prompt templates
            of some models take a system message only at the beginning, and need `user` here.
        effort: the fields for reasoning effort: `reasoning_effort`; OpenRouter's `reasoning`; or
            `thinking`, which only switches reasoning on or off.
        efforts: the server's words for ours, `none` to `max`; a word that is missing is not sent.
            By default all words are the same.
        send_reasoning: whether a server's reasoning is sent back to it, in the field it came in.
        include_usage: whether to ask for usage at the end of the stream; some servers always send
            it, and refuse to be asked.
        prompt_cache_key: whether to send the thread's id, so that its requests share a cache.
        native_output: whether answers keep to a requested JSON schema.
        think_tags: whether `<think>` at the beginning of an answer begins reasoning.
        seed_field: the name of the field for the seed.
        call_ids: the form of the ids of calls: `any`, or `nine` letters and digits.
        answer_before_user: whether an answer must stand between the result of a call and the next
            user message.
        google_signatures: whether calls have Google's signatures, which are sent back.
        dropped: settings that the server refuses or ignores; they are left out with a warning.
        refused: settings without which an answer would mean something else; a request with one of
            them is refused. A `tool_choice` of `auto` is never refused.
        reasons_unasked: whether the model reasons if no effort is set.
        dropped_while_reasoning: settings that are dropped while the model reasons.
        refused_while_reasoning: settings that are refused while the model reasons.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    later_system_role: Literal["system", "developer", "user"] = "system"
    effort: Literal["reasoning_effort", "reasoning", "thinking"] = "reasoning_effort"
    efforts: dict[str, str] | None = None
    send_reasoning: bool = True
    include_usage: bool = True
    prompt_cache_key: bool = False
    native_output: bool = True
    think_tags: bool = True
    seed_field: Literal["seed", "random_seed"] = "seed"
    call_ids: Literal["any", "nine"] = "any"
    answer_before_user: bool = False
    google_signatures: bool = False
    dropped: tuple[Setting, ...] = ()
    refused: tuple[Setting, ...] = ()
    reasons_unasked: bool = False
    dropped_while_reasoning: tuple[Setting, ...] = ()
    refused_while_reasoning: tuple[Setting, ...] = ()


OPENAI = ChatDialect(
    max_tokens_field="max_completion_tokens", prompt_cache_key=True, think_tags=False
)
COMPATIBLE = ChatDialect()


NO_EFFORT: dict[str, str] = {}
LOW_TO_HIGH = {"none": "low", "low": "low", "medium": "medium", "high": "high", "max": "high"}
NONE_TO_HIGH = {**LOW_TO_HIGH, "none": "none"}
LOW_HIGH_MAX = {"none": "low", "low": "low", "medium": "high", "high": "high", "max": "max"}


class ModelQuirk(Value, frozen=True, kw_only=True):
    """The fields of a dialect that are different for some models, by a pattern of their names."""

    pattern: str
    changes: dict[str, Any]


class ChatProvider(Value, frozen=True, kw_only=True):
    """One provider.

    Args:
        keys: the environment variables that may have its key.
        quirks: the first pattern that is found in a model's name counts.
    """

    url: str
    keys: tuple[str, ...]
    dialect: ChatDialect = COMPATIBLE
    quirks: tuple[ModelQuirk, ...] = ()


def _models(pattern: str, **changes: Any) -> ModelQuirk:
    return ModelQuirk(pattern=pattern, changes=changes)


_SAMPLING: tuple[Setting, ...] = ("temperature", "top_p")

OPENAI_MODELS = (
    _models(r"^(ft:)?(gpt-3|gpt-4|chatgpt-4)|^gpt-5[\d.]*-chat", efforts=NO_EFFORT),
    _models(
        r"^gpt-5(\.\d+)?-pro",
        efforts=dict.fromkeys(LOW_TO_HIGH, "high"),
        dropped=_SAMPLING,
        refused=("stop",),
    ),
    _models(
        r"^o\d",
        efforts=LOW_TO_HIGH,
        dropped=(*_SAMPLING, "parallel_tool_calls"),
        refused=("stop",),
    ),
    _models(r"codex", efforts=LOW_TO_HIGH, dropped=_SAMPLING, refused=("stop",)),
    _models(
        r"^gpt-5($|-mini|-nano|-\d)",
        efforts={**LOW_TO_HIGH, "none": "minimal"},
        dropped=_SAMPLING,
        refused=("stop",),
    ),
    _models(r"^gpt-5\.1", efforts=NONE_TO_HIGH, dropped_while_reasoning=_SAMPLING),
    _models(
        r"^gpt-5\.[2-5]",
        efforts={**NONE_TO_HIGH, "max": "xhigh"},
        dropped_while_reasoning=_SAMPLING,
    ),
    _models(r"^gpt-\d", dropped_while_reasoning=_SAMPLING),
)

CHAT_PROVIDERS: dict[str, ChatProvider] = {
    "openai-chat": ChatProvider(
        url="https://api.openai.com/v1",
        keys=("OPENAI_API_KEY",),
        dialect=OPENAI,
        quirks=OPENAI_MODELS,
    ),
    "groq": ChatProvider(
        url="https://api.groq.com/openai/v1",
        keys=("GROQ_API_KEY",),
        dialect=ChatDialect(
            max_tokens_field="max_completion_tokens",
            efforts=NO_EFFORT,
            send_reasoning=False,
            # Its schemas go with neither streams nor tools.
            native_output=False,
        ),
        quirks=(
            _models("gpt-oss", efforts=LOW_TO_HIGH),
            _models("qwen", efforts=dict.fromkeys(LOW_TO_HIGH, "default") | {"none": "none"}),
        ),
    ),
    "mistral": ChatProvider(
        url="https://api.mistral.ai/v1",
        keys=("MISTRAL_API_KEY",),
        dialect=ChatDialect(
            later_system_role="user",
            efforts=NO_EFFORT,
            include_usage=False,
            seed_field="random_seed",
            call_ids="nine",
            answer_before_user=True,
        ),
        quirks=(
            _models(
                r"mistral-(small|medium)-(latest|26)|mistral-medium-3\.[5-9]",
                efforts=dict.fromkeys(LOW_TO_HIGH, "high") | {"none": "none"},
            ),
        ),
    ),
    "deepseek": ChatProvider(
        url="https://api.deepseek.com/v1",
        keys=("DEEPSEEK_API_KEY",),
        dialect=ChatDialect(
            effort="thinking",
            efforts={**LOW_HIGH_MAX, "none": "none"},
            native_output=False,
            dropped=("seed", "parallel_tool_calls"),
            reasons_unasked=True,
            dropped_while_reasoning=_SAMPLING,
            refused_while_reasoning=("forced_tool_choice",),
        ),
        quirks=(_models("deepseek-chat", reasons_unasked=False),),
    ),
    "xai": ChatProvider(
        url="https://api.x.ai/v1",
        keys=("XAI_API_KEY",),
        dialect=ChatDialect(
            max_tokens_field="max_completion_tokens",
            efforts=LOW_TO_HIGH,
            send_reasoning=False,
            refused=("stop",),
        ),
        quirks=(
            _models("grok-3-mini", efforts={**LOW_TO_HIGH, "medium": "high"}),
            _models(r"non-reasoning|grok-[23]", efforts=NO_EFFORT, refused=()),
            _models(r"grok-4($|-|\.20)|grok-code", efforts=NO_EFFORT),
            _models(r"grok-4\.3", efforts=NONE_TO_HIGH),
        ),
    ),
    "together": ChatProvider(
        url="https://api.together.xyz/v1",
        keys=("TOGETHER_API_KEY",),
        dialect=ChatDialect(efforts=NO_EFFORT, native_output=False, send_reasoning=False),
        quirks=(_models("gpt-oss", efforts=LOW_TO_HIGH),),
    ),
    "fireworks": ChatProvider(
        url="https://api.fireworks.ai/inference/v1",
        keys=("FIREWORKS_API_KEY",),
        dialect=ChatDialect(efforts=NONE_TO_HIGH),
    ),
    "cerebras": ChatProvider(
        url="https://api.cerebras.ai/v1",
        keys=("CEREBRAS_API_KEY",),
        dialect=ChatDialect(
            max_tokens_field="max_completion_tokens",
            efforts=NO_EFFORT,
            # Its schemas do not go with tools.
            native_output=False,
            send_reasoning=False,
        ),
        quirks=(_models("gpt-oss", efforts=LOW_TO_HIGH),),
    ),
    "openrouter": ChatProvider(
        url="https://openrouter.ai/api/v1",
        keys=("OPENROUTER_API_KEY",),
        # Whether answers keep to a schema depends on the provider behind the model.
        dialect=ChatDialect(effort="reasoning", native_output=False),
    ),
    "moonshot": ChatProvider(
        url="https://api.moonshot.ai/v1",
        keys=("MOONSHOT_API_KEY",),
        dialect=ChatDialect(
            max_tokens_field="max_completion_tokens",
            effort="thinking",
            efforts={"none": "none", **dict.fromkeys(("low", "medium", "high", "max"), "")},
            native_output=False,
            dropped=(*_SAMPLING, "seed", "parallel_tool_calls"),
            reasons_unasked=True,
            refused_while_reasoning=("forced_tool_choice",),
        ),
        quirks=(
            _models(
                "moonshot-v1",
                efforts=NO_EFFORT,
                dropped=("seed", "parallel_tool_calls"),
                refused=("forced_tool_choice",),
            ),
            _models(
                r"kimi-k[3-9]",
                effort="reasoning_effort",
                efforts=LOW_HIGH_MAX,
                refused_while_reasoning=(),
            ),
            _models(r"k2\.7|k2-thinking", efforts=NO_EFFORT, refused=("forced_tool_choice",)),
        ),
    ),
    "zai": ChatProvider(
        url="https://api.z.ai/api/paas/v4",
        keys=("ZAI_API_KEY",),
        dialect=ChatDialect(
            effort="thinking",
            efforts={"none": "none", **dict.fromkeys(("low", "medium", "high", "max"), "")},
            include_usage=False,
            native_output=False,
            dropped=("seed", "parallel_tool_calls"),
            refused=("tool_choice",),
        ),
        quirks=(_models(r"glm-5\.[3-9]", effort="reasoning_effort", efforts=LOW_HIGH_MAX),),
    ),
    "huggingface": ChatProvider(
        url="https://router.huggingface.co/v1",
        keys=("HF_TOKEN",),
        dialect=ChatDialect(efforts=NO_EFFORT, native_output=False, send_reasoning=False),
        quirks=(_models("gpt-oss", efforts=LOW_TO_HIGH),),
    ),
    "google-openai": ChatProvider(
        url="https://generativelanguage.googleapis.com/v1beta/openai",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        dialect=ChatDialect(
            efforts=NONE_TO_HIGH,
            google_signatures=True,
            dropped=("seed", "parallel_tool_calls"),
            think_tags=False,
        ),
    ),
}


def provider_at(url: str | None) -> ChatProvider | None:
    """The provider of the table whose server is at this address, or `None`."""
    try:
        host = urlsplit(url or "").hostname
    except ValueError:  # `parse_url` says what is wrong with it
        return None
    known = CHAT_PROVIDERS.values()
    return next((each for each in known if urlsplit(each.url).hostname == host), None)


def dialect_of(provider: ChatProvider, model: str) -> ChatDialect:
    """The dialect for one model of a provider."""
    for quirk in provider.quirks:
        if re.search(quirk.pattern, model):
            return msgspec.structs.replace(provider.dialect, **quirk.changes)
    return provider.dialect
