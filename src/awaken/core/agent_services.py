"""Checking an agent's final answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

ProblemOf = Callable[[str], str | None]
Review = Callable[[Any, str], Awaitable[str | None]]


class AnswerCheck:
    """A service that checks final answers: `problem` returns what is wrong with one, or `None`.

    `review` gets the `PhaseContext` and an answer without a problem. It returns the text that the
    run's output is instead, or `None` to leave it, and raises a `ToolError` if the model is to
    answer again. Without this service, an answer is checked against the schema of the agent's
    `output` only.
    """

    __slots__ = ("problem", "review")

    def __init__(self, problem: ProblemOf, review: Review | None = None) -> None:
        self.problem, self.review = problem, review
