"""The workloads, and what a program must offer to be measured.

Standard library only: the peers' programs import this from a venv without awaken.

Every program gets the same work: an agent with one async tool of two int parameters, and a model
that answers at once. The model decides by the length of the conversation, so one serves any
number of runs, and it makes its answer anew each time, as a provider's adapter does.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, cast

Run = Callable[[], Coroutine[Any, Any, object]]
"""One run of an agent, from the question to the answer."""

DELTA = "word "


class Tally:
    """Counts what was really done: tools called, deltas read."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Unsupported(Exception):
    """A program cannot do a workload; the text says why."""


class Program(Protocol):
    """One way to run agents. Opening builds the agent; only the runs are measured."""

    name: str
    imports: str
    """What its users write to import it."""

    def steps(self, count: int, delay: float, tally: Tally) -> AbstractAsyncContextManager[Run]:
        """Runs of `count` steps that call the tool once each, then an answer."""
        ...

    def deltas(self, count: int, tally: Tally) -> AbstractAsyncContextManager[Run]:
        """Runs of one answer in `count` pieces, each read by a consumer as it comes."""
        ...

    def calls(self, count: int, tally: Tally) -> AbstractAsyncContextManager[Run]:
        """Runs of one step with `count` calls side by side, then an answer."""
        ...


class Delegating(Protocol):
    """What a program offers beyond that, if it can."""

    def delegates(self, count: int, tally: Tally) -> AbstractAsyncContextManager[Run]:
        """Runs of `count` steps that give a task to another agent each, which answers at once."""
        ...

    def tasks(self, count: int, tally: Tally) -> AbstractAsyncContextManager[Run]:
        """Runs of one step that starts `count` tasks in the background, then an answer."""
        ...


class Publishing(Protocol):
    """What a program offers whose runs others may listen to."""

    def unheard(
        self, count: int, tally: Tally, *, has_topic: bool
    ) -> AbstractAsyncContextManager[Run]:
        """Runs of one answer in `count` pieces that no one listens to, though with a topic
        listeners may come."""
        ...


class Workload(NamedTuple):
    """Some work, and how its figure is made.

    A sample is `times` repetitions of `at_once` runs, each of which does `done` countable things.
    The figure is CPU seconds, divided by `per` for each repetition, times `scale`. The budget is
    for all of it, or for what it takes more than the workload `over`, on an optimised CPython 3.14.
    """

    key: str
    title: str
    unit: str
    budget: float | None
    open: Callable[[Program, Tally], AbstractAsyncContextManager[Run]]
    done: int
    per: int
    times: int = 1
    at_once: int = 1
    scale: float = 1e6
    over: str | None = None


STEPS, MANY_STEPS, DELTAS, CALLS = 20, 200, 2_000, 50
DELEGATES, TASKS = 20, 50
RUNS, RUN_STEPS, DELAY = 1_000, 5, 0.010


def open_crowd(program: Program, tally: Tally) -> AbstractAsyncContextManager[Run]:
    """The runs of W5: short, and each answer of the model takes its time."""
    return program.steps(RUN_STEPS, DELAY, tally)


def delegating(program: Program) -> Delegating:
    """
    Raises:
        Unsupported: the program does not offer it here.
    """
    if not hasattr(program, "delegates"):
        raise Unsupported("not measured: what it keeps of such work is not comparable")
    return cast("Delegating", program)


def publishing(program: Program) -> Publishing:
    """
    Raises:
        Unsupported: the program has no topics.
    """
    if not hasattr(program, "unheard"):
        raise Unsupported("it has no topics: no one can listen to a run who has not started it")
    return cast("Publishing", program)


WORKLOADS = (
    Workload(
        key="start",
        title="a run that answers at once, from start to end",
        unit="µs",
        budget=100,
        open=lambda program, tally: program.steps(0, 0, tally),
        done=0,
        per=1,
        times=100,
    ),
    Workload(
        key="w1",
        title=f"W1 one tool-calling step, {STEPS} in a run",
        unit="µs",
        budget=42,
        open=lambda program, tally: program.steps(STEPS, 0, tally),
        done=STEPS,
        per=STEPS,
        times=20,
    ),
    Workload(
        key="w1_many",
        title=f"W1 the same, {MANY_STEPS} in a run",
        unit="µs",
        budget=35,
        open=lambda program, tally: program.steps(MANY_STEPS, 0, tally),
        done=MANY_STEPS,
        per=MANY_STEPS,
        times=3,
    ),
    Workload(
        key="w2",
        title=f"W2 one streamed delta, {DELTAS:,} in an answer",
        unit="µs",
        budget=1.1,
        open=lambda program, tally: program.deltas(DELTAS, tally),
        done=DELTAS,
        per=DELTAS,
        times=5,
    ),
    Workload(
        key="sv7_floor",
        title=f"06/SV-7 floor: one delta no one hears, without a topic, {DELTAS:,} in an answer",
        unit="µs",
        budget=None,
        open=lambda program, tally: publishing(program).unheard(DELTAS, tally, has_topic=False),
        done=DELTAS,
        per=DELTAS,
        times=5,
    ),
    Workload(
        key="sv7",
        title="06/SV-7 the same with a topic; the budget is for what that adds",
        unit="µs",
        budget=0.3,
        over="sv7_floor",
        open=lambda program, tally: publishing(program).unheard(DELTAS, tally, has_topic=True),
        done=DELTAS,
        per=DELTAS,
        times=5,
    ),
    Workload(
        key="w3",
        title=f"W3 one of {CALLS} parallel calls",
        unit="µs",
        budget=15,
        open=lambda program, tally: program.calls(CALLS, tally),
        done=CALLS,
        per=CALLS,
        times=10,
    ),
    Workload(
        key="w5",
        title=f"W5 {RUNS:,} runs of {RUN_STEPS} steps at once",
        unit="s",
        budget=0.40,
        open=open_crowd,
        done=RUN_STEPS,
        per=1,
        at_once=RUNS,
        scale=1,
    ),
    Workload(
        key="w6",
        title=f"W6 a delegate's run, {DELEGATES} in a run",
        unit="µs",
        budget=160,
        open=lambda program, tally: delegating(program).delegates(DELEGATES, tally),
        done=DELEGATES,
        per=DELEGATES,
        times=5,
    ),
    Workload(
        key="w7",
        title=f"W7 a background task, {TASKS} in a run",
        unit="µs",
        budget=160,
        open=lambda program, tally: delegating(program).tasks(TASKS, tally),
        done=TASKS,
        per=TASKS,
        times=5,
    ),
)


class Figure(NamedTuple):
    """A figure that is not CPU time of a running program; with `more`, more is better."""

    key: str
    title: str
    unit: str
    budget: float | None
    more: bool = False


MEMORY = Figure("w5_memory", "W5 memory a run, peak RSS", "KiB", 24)
IMPORT = Figure("import", "import in a fresh interpreter", "ms", 90)
IMPORT_ONLY = Figure("import_only", "import, less the bare interpreter", "ms", None)
