"""What is special about a server with a chat completions API, and about its models."""

from __future__ import annotations

from typing import Literal

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
