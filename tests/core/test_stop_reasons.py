"""Why a model stopped, by name."""

from __future__ import annotations

from awaken.codec import from_json, to_json
from awaken.core.inference import StopReason


def test_reasons_to_stop_have_their_names_on_the_wire() -> None:
    """01/1.8, 02/6.1."""
    names = ["EndTurn", "MaxTokens", "ToolUse", "StopSequence"]

    assert [to_json(reason) for reason in StopReason] == names
    assert [from_json(name, StopReason) for name in names] == list(StopReason)
