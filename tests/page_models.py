"""Answers for the pages: what stands in for a provider's model, in a `setup` comment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import awaken.runtime.model_stack
from awaken.core.llm import LlmExecutor
from awaken.testing import ScriptedModel


def answer_with(script: Iterable[Any]) -> None:
    """Have one script answer for all models that a page names."""
    model = ScriptedModel(script)

    def open_model(name: str) -> LlmExecutor:
        return model

    vars(awaken.runtime.model_stack)["open_model"] = open_model
