"""What the names of Claude models say about them.

The name gives the generation, which decides how a model must be asked. A model whose name says
nothing (an alias, an opaque ARN) is asked like the newest models.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from awaken.core.llm import ModelAbilities
from awaken.core.value import Value

Platform = Literal["anthropic", "bedrock", "vertex"]
Version = tuple[int, int]

UNKNOWN_MAX_TOKENS = 8_192

_FAMILIES = "opus|sonnet|haiku|fable|mythos"
_NAME = re.compile(rf"claude-({_FAMILIES})-(\d{{1,2}})(?:[-.](\d{{1,2}}))?(?!\d)")
_OLD_NAME = re.compile(r"claude-(\d)(?:[-.](\d))?-(opus|sonnet|haiku)")
_READS = frozenset({"image", "document"})


class Claude(Value, frozen=True, kw_only=True):
    """One model: its family and version, as far as its name tells."""

    family: str = ""
    version: Version = (99, 0)

    @property
    def known(self) -> bool:
        return bool(self.family)

    @property
    def reasons(self) -> bool:
        return self.version >= (3, 7)

    @property
    def takes_budget(self) -> bool:
        """Whether it reasons only if it is given a token budget; later models decide themselves."""
        return (3, 7) <= self.version < (4, 6)

    @property
    def always_thinks(self) -> bool:
        return self.family in ("fable", "mythos") or (
            self.family == "opus" and self.version >= (5, 5)
        )

    @property
    def thinks_unasked(self) -> bool:
        return self.known and (self.always_thinks or self.version >= (5, 0))

    @property
    def binds_thinking(self) -> bool:
        """Whether its reasoning is valid only after exactly the messages it was made for."""
        if self.family in ("fable", "mythos"):
            return self.version >= (5, 1)
        return self.known and self.version >= (5, 5)

    @property
    def sampling(self) -> int:
        """How many of `temperature` and `top_p` it takes in one request."""
        if not self.known or self.version < (4, 1):
            return 2
        return 1 if self.version < (4, 7) else 0

    @property
    def takes_forced_calls(self) -> bool:
        """Whether it can be made to call a tool."""
        return not self.binds_thinking

    @property
    def forced_while_thinking(self) -> bool:
        """Whether it can be made to call a tool in an answer before which it reasons."""
        return self.version >= (4, 8)

    @property
    def takes_system_messages(self) -> bool:
        """Whether system messages may stand within a conversation, not only before it."""
        if self.family == "sonnet":
            return self.version >= (5, 5)
        return self.known and self.version >= ((4, 8) if self.family == "opus" else (5, 0))

    @property
    def takes_schema(self) -> bool:
        return self.known and self.version >= (4, 5)

    @property
    def max_output(self) -> int:
        if not self.known:
            return UNKNOWN_MAX_TOKENS
        if self.version >= (5, 0) or (self.family != "sonnet" and self.version >= (4, 6)):
            return 128_000
        if self.version >= (4, 5) or (self.family == "sonnet" and self.version >= (3, 7)):
            return 64_000
        if self.version >= (4, 0):
            return 32_000
        return 8_192 if self.version >= (3, 5) else 4_096

    @property
    def context_window(self) -> int:
        return 1_000_000 if self.version >= (4, 6) else 200_000


@lru_cache(maxsize=256)
def claude(name: str) -> Claude:
    """The model that a name stands for; cloud prefixes, dates and revisions are ignored."""
    if found := _NAME.search(name):
        family, major, minor = found.groups()
    elif found := _OLD_NAME.search(name):
        major, minor, family = found.groups()
    elif "claude-mythos-preview" in name:
        family, major, minor = "mythos", "4", "7"
    else:
        return Claude()
    return Claude(family=family, version=(int(major), int(minor or 0)))


@lru_cache(maxsize=256)
def abilities_of_model(name: str, platform: Platform) -> ModelAbilities:
    """What a model can do.

    On Vertex, structured outputs are off unless an organisation allows them, so they are not listed
    there.
    """
    model = claude(name)
    return ModelAbilities(
        native_output=model.takes_schema and platform != "vertex",
        input=_READS,
        context_window=model.context_window if model.known else None,
        max_output_tokens=model.max_output if model.known else None,
    )
