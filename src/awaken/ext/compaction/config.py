"""The configuration of summaries: the section `compaction` of an agent."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from awaken.codec import Json
from awaken.core.inference import CompactionMode, ContextWindowPolicy
from awaken.core.spec import AgentSpec
from awaken.core.value import Value

SECTION = "compaction"

SYSTEM_PROMPT = (
    "You summarise a conversation between a user and an assistant, so that the assistant can go on "
    "with it without having seen it. Keep what it will need: what the user wants, what was decided "
    "and why, facts, names, numbers, paths and ids as they were written, what tools were used for "
    "and what came of it, what is still open. Leave out pleasantries and whatever is settled and "
    "has no consequences. Answer with the summary alone."
)
USER_PROMPT = (
    "The summary so far, which yours replaces:\n<previous-summary>\n{previous_summary}\n"
    "</previous-summary>\n\nWhat was said since:\n<messages>\n{messages}\n</messages>\n\n"
    "Write the new summary."
)
NO_SUMMARY = "(none)"


class CompactionConfig(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How and when a summary is made.

    `mode` overrides how many messages the policy leaves unsummarised; `off` makes no summaries.
    `{previous_summary}` and `{messages}` in the prompts are filled in. A summary that saves less
    than `min_savings_ratio` of the tokens it replaces is not used. `raw_retention` is `all`: the
    thread keeps every message, even those that the model is not shown.
    """

    mode: Literal["off", "keep_recent_raw_suffix", "compact_to_safe_frontier"] | None = None
    summariser_system_prompt: str = SYSTEM_PROMPT
    summariser_user_prompt: str = USER_PROMPT
    summary_max_tokens: Annotated[int, Meta(ge=1)] = 1024
    summary_model: str | None = None
    min_savings_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.3
    raw_retention: Literal["all"] = "all"

    def suffix(self, policy: ContextWindowPolicy) -> int:
        """How many of the last messages are not summarised."""
        if (self.mode or policy.compaction_mode) == CompactionMode.COMPACT_TO_SAFE_FRONTIER:
            return policy.min_recent_messages
        return policy.compaction_raw_suffix_messages

    def prompt(self, previous: str | None, messages: str) -> str:
        """The prompt that asks for a summary."""
        # In one pass: the texts that are filled in may contain such placeholders.
        parts = {"previous_summary": previous or NO_SUMMARY, "messages": messages}
        return fill_in(self.summariser_user_prompt, parts)


def summary_model(spec: AgentSpec) -> str | None:
    """The model for an agent's summaries, or `None` if it is the agent's own."""
    section = spec.sections.get(SECTION)
    name = section.get("summary_model") if isinstance(section, dict) else None
    return name if isinstance(name, str) else None


def fill_in(template: str, parts: dict[str, str]) -> str:
    """The template with each `{name}` of `parts` replaced."""
    for name in parts:
        before, found, after = template.partition(f"{{{name}}}")
        if found:
            return fill_in(before, parts) + parts[name] + fill_in(after, parts)
    return template


@cache
def section_schema() -> Json:
    """The JSON schema of the section."""
    schema: Json = msgspec.json.schema(CompactionConfig)["$defs"]["CompactionConfig"]
    return schema
