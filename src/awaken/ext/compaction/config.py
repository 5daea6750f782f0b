"""How summaries are made: the section `compaction` of an agent."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from awaken.codec import Json
from awaken.domain.inference import CompactionMode, ContextWindowPolicy
from awaken.domain.spec import AgentSpec
from awaken.domain.value import Value

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

    `mode` says how much stays as it is, where that is to be another than the policy says; `off`
    makes none. `{previous_summary}` and `{messages}` in the prompts are filled in. A summary is
    not used that spares less than `min_savings_ratio` of what it is about. `raw_retention` is
    `all`: the thread keeps every message, whatever is shown of it.
    """

    mode: Literal["off", "keep_recent_raw_suffix", "compact_to_safe_frontier"] | None = None
    summariser_system_prompt: str = SYSTEM_PROMPT
    summariser_user_prompt: str = USER_PROMPT
    summary_max_tokens: Annotated[int, Meta(ge=1)] = 1024
    summary_model: str | None = None
    min_savings_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.3
    raw_retention: Literal["all"] = "all"

    def suffix(self, policy: ContextWindowPolicy) -> int:
        """How many of the last messages stay as they are."""
        if (self.mode or policy.compaction_mode) == CompactionMode.COMPACT_TO_SAFE_FRONTIER:
            return policy.min_recent_messages
        return policy.compaction_raw_suffix_messages

    def prompt(self, previous: str | None, messages: str) -> str:
        """The question for a summary."""
        # In one go: what is filled in may hold such words itself.
        parts = {"previous_summary": previous or NO_SUMMARY, "messages": messages}
        return fill_in(self.summariser_user_prompt, parts)


def summary_model(spec: AgentSpec) -> str | None:
    """The model an agent wants its summaries from, if it is to be another than its own."""
    section = spec.sections.get(SECTION)
    name = section.get("summary_model") if isinstance(section, dict) else None
    return name if isinstance(name, str) else None


def fill_in(template: str, parts: dict[str, str]) -> str:
    """The template with each `{name}` of `parts` replaced, and all else as it is."""
    for name in parts:
        before, found, after = template.partition(f"{{{name}}}")
        if found:
            return fill_in(before, parts) + parts[name] + fill_in(after, parts)
    return template


@cache
def section_schema() -> Json:
    """What the section must look like."""
    schema: Json = msgspec.json.schema(CompactionConfig)["$defs"]["CompactionConfig"]
    return schema
