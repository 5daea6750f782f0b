"""Services of a single agent: its check of final answers, its system prompt, and its tools.

The prompt may be a function, and the tools may depend on the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from awaken.core.deps import RunInfo
from awaken.core.tool_context import Tool

ProblemOf = Callable[[str], str | None]
Review = Callable[[Any, str], Awaitable[str | None]]


class AnswerCheck:
    """A service that checks final answers: `problem` returns what is wrong with one, or `None`.

    `review` gets the `PhaseContext` and an answer without a problem. It returns a text that
    replaces the run's output, or `None` to leave it, and raises a `ToolError` if the model is to
    answer again. Without this service, an answer is checked against the schema of the agent's
    `output` only.
    """

    __slots__ = ("problem", "review")

    def __init__(self, problem: ProblemOf, review: Review | None = None) -> None:
        self.problem, self.review = problem, review


WritesPrompt = Callable[[Any], str | Awaitable[str]]


class PromptSource:
    """A service of an agent whose system prompt is a function.

    `write` takes the `PhaseContext` of the step, and returns the text.
    """

    __slots__ = ("write",)

    def __init__(self, write: WritesPrompt) -> None:
        self.write = write


OffersTools = Callable[[RunInfo, Mapping[str, Tool]], Awaitable[Mapping[str, Tool]]]


class ToolSource:
    """A service of an agent whose tools depend on the run.

    `offer` takes the run and the agent's other tools, and returns those for this run, by id and in
    the order in which the model reads them.
    """

    __slots__ = ("offer",)

    def __init__(self, offer: OffersTools) -> None:
        self.offer = offer
