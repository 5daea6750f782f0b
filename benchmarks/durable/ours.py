"""Awaken on an SQLite file, as its users write it, and a model that reads the meters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from awaken import Agent, tool
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import ContextWindowPolicy, StopReason, TokenUsage
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop, Usage

T = TypeVar("T")


def address(path: Path, synchronous: str = "full") -> str:
    return f"sqlite:///{path}?synchronous={synchronous}"


class MeteredModel(Generic[T]):
    """Wants `steps` steps of one call each, then answers; one run at a time.

    It takes a reading when it is asked first and when it is asked last. Between the two lie whole
    steps and nothing else: the answer, its commit, the call, the commit of its outcome.
    """

    name = "metered"

    def __init__(self, take: Callable[[], T]) -> None:
        self._take = take
        self.expect(0)

    def expect(self, steps: int) -> None:
        """Be ready for the next run."""
        self._steps, self._asked = steps, 0
        self.readings: list[T] = []
        self.shown = 0

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        number = self._asked
        self._asked += 1
        if number in (0, self._steps):
            self.readings.append(self._take())
            self.shown = self.shown or len(request.messages)
        for event in answer(number, self._steps):
            yield event


class StepModel:
    """Wants `steps` steps in each of any number of new threads."""

    name = "steps"

    def __init__(self, steps: int) -> None:
        self._steps = steps

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        for event in answer(len(request.messages) // 2, self._steps):
            yield event


def answer(number: int, steps: int) -> list[LlmStreamEvent]:
    """What a model says when it is asked for the time `number`, counted from 0."""
    usage = Usage(usage=TokenUsage(prompt_tokens=10, completion_tokens=5, total_tokens=15))
    if number == steps:
        return [TextDelta(delta="done"), usage, Stop(reason=StopReason.END_TURN)]
    call = f"c{number}"
    return [
        ToolCallStart(id=call, name="add"),
        ToolCallDelta(id=call, args_delta=f'{{"a": {number}, "b": 1}}'),
        usage,
        Stop(reason=StopReason.TOOL_USE),
    ]


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(model: Any, steps: int, *, window: int | None = None) -> Agent:
    """The agent under measurement; with `window` it reads and sends that many messages at most."""
    return Agent(
        "bench",
        model=model,
        tools=[add],
        max_rounds=steps + 1,
        context_policy=windowed(window) if window else None,
    )


def windowed(messages: int) -> ContextWindowPolicy:
    return ContextWindowPolicy(
        max_context_tokens=200_000,
        max_output_tokens=16_384,
        min_recent_messages=10,
        enable_prompt_cache=False,
        max_messages=messages,
    )
