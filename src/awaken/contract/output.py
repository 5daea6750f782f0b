"""Checking an agent's final answer (structured output)."""

from __future__ import annotations

from collections.abc import Callable

ProblemOf = Callable[[str], str | None]


class AnswerCheck:
    """A service that checks final answers: `problem` returns what is wrong with one, or `None`.

    Without it, an answer is checked against the schema of the agent's `output` only.
    """

    __slots__ = ("problem",)

    def __init__(self, problem: ProblemOf) -> None:
        self.problem = problem
