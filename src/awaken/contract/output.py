"""Holding an answer against the shape it has to have."""

from __future__ import annotations

from collections.abc import Callable

ProblemOf = Callable[[str], str | None]


class AnswerCheck:
    """A service of an agent whose answers are more than text: says what is wrong with one.

    Without it, they are held against the schema of the agent's `output` alone.
    """

    __slots__ = ("problem",)

    def __init__(self, problem: ProblemOf) -> None:
        self.problem = problem
