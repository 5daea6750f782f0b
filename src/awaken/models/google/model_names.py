"""What the names of Gemini models say about them."""

from __future__ import annotations

import re

from awaken.core.llm import ModelAbilities

_GENERATION = re.compile(r"(?:^|/)gemini-(\d+)")
_CHATS = re.compile(
    r"(?:^|/)gemini-(2\.[05]|[3-9])(?!.*-(image|tts|live|audio|embedding|robotics))"
)
_WITHOUT_REASONING = re.compile(r"(?:^|/)gemini-(1|2\.0)")
_READS = frozenset({"image", "audio", "video", "document"})


def generation(model: str) -> int | None:
    """The 3 of `gemini-3-pro`; `None` if the name does not tell, as in `gemini-flash-latest`."""
    found = _GENERATION.search(model)
    return int(found[1]) if found else None


def is_older(model: str, than: int) -> bool:
    """Whether a model is known to be of an earlier generation."""
    known = generation(model)
    return known is not None and known < than


def reasons(model: str) -> bool:
    """Whether a model may reason before it answers."""
    return _WITHOUT_REASONING.search(model) is None


def abilities(model: str) -> ModelAbilities:
    """The abilities of a Gemini model."""
    # Before Gemini 3, a request can have an output schema or tools, not both.
    native = "gemini" in model and not is_older(model, 3)
    if not _CHATS.search(model):
        return ModelAbilities(native_output=native)
    return ModelAbilities(
        native_output=native,
        input=_READS,
        context_window=1_048_576,
        max_output_tokens=8_192 if "gemini-2.0" in model else 65_536,
    )
