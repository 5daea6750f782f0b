"""Overlays: changes to an agent's spec while it has a conversation that was handed to it."""

from __future__ import annotations

import msgspec

from awaken.codec import Json, from_json
from awaken.core.spec import AgentSpec, ToolSelection
from awaken.core.value import Value


class AgentOverlay(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to an agent's spec; a field that is `None` changes nothing.

    Tools can only be removed: `allowed_tools` keeps only the tools it names, `excluded_tools`
    removes the tools it names. An overlay never adds a tool.
    """

    system_prompt: str | None = None
    model_id: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    excluded_tools: tuple[str, ...] | None = None

    @classmethod
    def read(cls, value: Json) -> AgentOverlay:
        """An overlay from JSON; unknown fields are refused."""
        return from_json(value, cls)

    @property
    def tool_selection(self) -> ToolSelection:
        """Which of its tools the agent keeps."""
        return ToolSelection(allowed=self.allowed_tools, excluded=self.excluded_tools or ())

    def on(self, spec: AgentSpec) -> AgentSpec:
        """The spec with these changes."""
        given = {
            field: value
            for field in self.__struct_fields__
            if (value := getattr(self, field)) is not None
        }
        if self.excluded_tools is not None:
            given["excluded_tools"] = (*(spec.excluded_tools or ()), *self.excluded_tools)
        return msgspec.structs.replace(spec, **given)
