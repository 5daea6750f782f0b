"""The nine phases of a run, in order."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """The phases that hooks can be registered for; `tool_gate` takes gates and policies only."""

    RUN_START = "run_start"
    STEP_START = "step_start"
    BEFORE_INFERENCE = "before_inference"
    AFTER_INFERENCE = "after_inference"
    TOOL_GATE = "tool_gate"
    BEFORE_TOOL_EXECUTE = "before_tool_execute"
    AFTER_TOOL_EXECUTE = "after_tool_execute"
    STEP_END = "step_end"
    RUN_END = "run_end"

    @property
    def is_run_level(self) -> bool:
        return self in (Phase.RUN_START, Phase.RUN_END)
