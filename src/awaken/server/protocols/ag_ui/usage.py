"""Tokens that were used, as AG-UI tells them."""

from __future__ import annotations

from awaken.codec import Json
from awaken.core.event import InferenceComplete

_FIELDS = {
    "prompt_tokens": "inputTokens",
    "completion_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "thinking_tokens": "reasoningTokens",
    "cache_read_tokens": "cachedInputTokens",
    "cache_creation_tokens": "cacheWriteInputTokens",
}


class Usage:
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
