"""Data that AG-UI clients get beside events: state, an agent's capabilities, token usage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from awaken.codec import Json
from awaken.core.event import InferenceComplete
from awaken.core.spec import AgentSpec
from awaken.core.tool import ToolDescriptor

_PREFIX = "/extensions/"


class ClientState:
    """A client's state; `value` is `None` as long as the client has none that can be patched.

    Our state keys are names at its top level. Other names there are the client's own, and stay.
    """

    def __init__(self, value: Json) -> None:
        self.value: dict[str, Json] | None = dict(value) if isinstance(value, dict) else None
        self._ours: frozenset[str] = frozenset()

    def copy(self) -> dict[str, Json]:
        """The state as it is now."""
        return dict(self.value or {})

    def take(self, snapshot: Json) -> bool:
        """Put the state of a run into it. Returns whether that has changed it."""
        public: dict[str, Any] = snapshot.get("extensions", {})
        before = self.value
        own = {
            name: value
            for name, value in (before or {}).items()
            if name in public or name not in self._ours
        }
        self.value = {**own, **public}
        self._ours = frozenset(public)
        return self.value != before and bool(self.value or before)

    def patch(self, delta: Iterable[Json]) -> list[Json]:
        """The patch for the client; empty if the client has no state to apply it to."""
        if self.value is None:
            return []
        return [patch for change in delta if (patch := self._change(change)) is not None]

    def _change(self, change: Json) -> Json:
        state, path = self.value, str(change["path"])
        if state is None or not path.startswith(_PREFIX):
            return None  # our revision is not for the client
        name = path.removeprefix(_PREFIX)
        key = name.replace("~1", "/").replace("~0", "~")
        if change["op"] == "remove":
            self._ours -= {key}
            return (
                {"op": "remove", "path": f"/{name}"} if state.pop(key, self) is not self else None
            )
        self._ours |= {key}
        state[key] = change["value"]
        return {"op": "add", "path": f"/{name}", "value": change["value"]}


def capabilities(agent: AgentSpec, tools: Iterable[ToolDescriptor]) -> Json:
    """The capabilities of an agent with these tools of its own."""
    items = [_tool(tool) for tool in tools]
    identity = {"name": agent.id, "type": "awaken"}
    if agent.description:
        identity["description"] = agent.description
    return {
        "identity": identity,
        "transport": {"streaming": True, "resumable": True},
        "tools": {"supported": True, "items": items, "clientProvided": True},
        "output": {"structuredOutput": agent.output is not None},
        "state": {"snapshots": True, "deltas": True, "persistentState": True},
        "multiAgent": {"supported": bool(agent.delegates), "delegation": bool(agent.delegates)},
        "reasoning": {"supported": True, "streaming": True},
        "execution": {"maxIterations": agent.max_rounds},
        "humanInTheLoop": {
            "supported": True,
            "approvals": True,
            "interrupts": True,
            "approveWithEdits": True,
        },
    }


def _tool(tool: ToolDescriptor) -> Json:
    return {"name": tool.id, "description": tool.description, "parameters": tool.parameters}


_FIELDS = {
    "prompt_tokens": "inputTokens",
    "completion_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "thinking_tokens": "reasoningTokens",
    "cache_read_tokens": "cachedInputTokens",
    "cache_creation_tokens": "cacheWriteInputTokens",
}


class ModelUsage:
    """The tokens of a stream's model calls, by model."""

    def __init__(self) -> None:
        self._models: dict[str, dict[str, int]] = {}

    def add(self, event: InferenceComplete) -> None:
        if event.usage is None:
            return
        counts = self._models.setdefault(event.model, {})
        for name, wire in _FIELDS.items():
            count = getattr(event.usage, name)
            if count is not None:
                counts[wire] = counts.get(wire, 0) + count

    def by_model(self) -> list[Json]:
        return [{"model": model, **counts} for model, counts in self._models.items() if counts]
