"""The agent that books, and what a client sees of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from cut_stage import CALLS, FINAL, FIRST

from awaken import Agent, tool
from awaken.core.event import (
    AgentEvent,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStart,
)
from awaken.core.llm import LlmExecutor
from awaken.core.message import Message, Role


def booker(bookings: Path, model: str | LlmExecutor | Sequence[str]) -> Agent:
    """An agent whose tool writes down each of its calls."""

    @tool
    async def book(city: str, nights: int) -> str:
        """Book a room."""
        with bookings.open("a") as book:
            book.write(json.dumps({"city": city, "nights": nights}) + "\n")
        return "booked"

    return Agent("a", model=model, tools=[book], sections={"retry": {"backoff_base_ms": 0}})


@dataclass
class Turn:
    """One answer as it is shown."""

    text: str = ""
    calls: dict[str, Any] = field(default_factory=dict)


class Screen:
    """Shows what comes: text and calls of each turn."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.resets = 0

    def show(self, event: AgentEvent) -> None:
        match event:
            case StepStart():
                self.turns.append(Turn())
            case TextDelta():
                self.turns[-1].text += event.delta
            case ToolCallStart():
                self.turns[-1].calls[event.id] = ""
            case ToolCallDelta():
                self.turns[-1].calls[event.id] += event.args_delta
            case ToolCallReady():
                written = self.turns[-1].calls.get(event.id)
                assert written is None or json.loads(written) == event.arguments
                self.turns[-1].calls[event.id] = event.arguments
            case ToolCallCancel():
                # One that was begun before the screen was switched on is not there.
                self.turns[-1].calls.pop(event.id, None)
            case StreamReset():
                self.turns[-1] = Turn()
                self.resets += 1


def problem_of(
    log: Sequence[Message], screen: Screen, bookings: Path, *, unseen: int = 0
) -> str | None:
    """What differs from a conversation nothing happened to, if anything does.

    Args:
        unseen: how many turns there were before the screen was switched on.
    """
    answers = [message for message in log if message.role is Role.ASSISTANT]
    text = "".join(message.text() for message in answers)
    if text != FIRST + FINAL:
        return f"the text is {text!r}"
    calls = [(call.id, call.arguments) for m in answers for call in m.tool_calls or ()]
    if calls != list(CALLS.items()):
        return f"the calls are {calls}"
    made = [json.loads(line) for line in bookings.read_text().splitlines()]
    if sorted(made, key=itemgetter("city")) != list(CALLS.values()):
        return f"booked were {made}"
    kept = [Turn(m.text(), {c.id: c.arguments for c in m.tool_calls or ()}) for m in answers]
    if screen.turns != kept[unseen:]:
        return f"shown is {screen.turns}, kept {kept[unseen:]}"
    return _unanswered(log)


def _unanswered(log: Iterable[Message]) -> str | None:
    waiting: list[str] = []
    for message in log:
        if message.role is Role.TOOL and message.tool_call_id in waiting:
            waiting.remove(message.tool_call_id)
        elif waiting or message.role is Role.TOOL:
            return f"{message.role} comes while {waiting} have no result"
        waiting += [call.id for call in message.tool_calls or ()]
    return f"{waiting} have no result" if waiting else None
