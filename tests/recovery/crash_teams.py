"""What the crash matrix plays with several agents: delegates, hand-offs, tasks, messages, and
agents that run elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from crash_scenarios import (
    ALONE,
    Answered,
    Cancelled,
    Far,
    Part,
    Said,
    Scenario,
    less,
    no,
)
from crash_served import SERVED
from crash_world import FAILS, Call, Plan, World

from awaken import Budget, ToolCallResume
from awaken.core.lifecycle import NATURAL_END
from awaken.core.run import RunRecord
from awaken.core.suspension import Ticket
from awaken.ext.handoff import Handoff
from awaken.testing.chaos import ThreadDump, task_of

CHARGE: Plan = [[("charge", {"order": 1})]]
SHIP: Plan = [[("ship", {"order": 1})]]
ASK: Plan = [[("refund", {"order": 1, "euros": 9})]]
LOOK: Call = ("look", {"order": 2})
NEIGHBOUR = "t2"


def to(agent: str, prompt: str = "Do it.") -> Call:
    """The call that gives an agent a task."""
    return f"agent_run_{agent}", {"prompt": prompt}


def hand_to(agent: str) -> Call:
    return "handoff", {"agent": agent}


def write(message: str, **to: str) -> Call:
    return "send_message", {"to": to, "message": message}


def blue(ticket: Ticket, world: World) -> ToolCallResume:
    return ToolCallResume.approve("Blue.", by="ann")


# -- delegates --------------------------------------------------------------------------------


_NESTED = Part([[to("middle")]], delegates=("middle",))
_BENEATH = {
    "middle": Part([[to("leaf")]], delegates=("leaf",)),
    "leaf": Part(ASK),
}

_OVERTAKEN = (Said(), Said(text="Did you do it?"))


def told_what_was_done(final: ThreadDump) -> Iterable[str]:
    """A call that was superseded, or cut short, tells of the charge beneath it, once."""
    told = [m.text() for m in final.messages if m.text().startswith("superseded")]
    texts = [text.count("charge(order=1) → ") for text in told]
    return [] if texts == [1] else [f"the charge was told {texts} times"]


DELEGATES = (
    Scenario(
        name="delegate",
        main=Part([[to("helper"), LOOK]], delegates=("helper",)),
        team={"helper": Part(CHARGE)},
    ),
    Scenario(
        name="delegates-side-by-side",
        main=Part([[to("left"), to("right"), LOOK]], delegates=("left", "right")),
        team={"left": Part(CHARGE), "right": Part([[("charge", {"order": 2})]])},
    ),
    Scenario(
        name="delegate-twice",
        main=Part([[to("helper", "One."), to("helper", "Two.")]], delegates=("helper",)),
        team={"helper": Part([[LOOK]])},
    ),
    Scenario(
        name="delegate-asks",
        main=Part([[to("helper"), LOOK]], delegates=("helper",)),
        team={"helper": Part([*ASK, [("ship_asking", {"order": 1})]])},
    ),
    Scenario(
        name="delegate-asks-elsewhere",
        main=Part([[to("helper"), *CHARGE[0]]], delegates=("helper",)),
        team={"helper": Part(ASK)},
        answered=Answered.ELSEWHERE,
        answer=less,
    ),
    Scenario(
        name="delegate-asks-while-waiting",
        main=Part([[to("helper")]], delegates=("helper",)),
        team={"helper": Part(ASK)},
        answered=Answered.LIVE,
    ),
    Scenario(
        name="delegates-ask-side-by-side",
        main=Part([[to("left"), to("right")]], delegates=("left", "right")),
        team={"left": Part(ASK), "right": Part([[("refund", {"order": 2, "euros": 3})]])},
    ),
    Scenario(name="nested-asks", main=_NESTED, team=_BENEATH, answered=Answered.ELSEWHERE),
    Scenario(
        name="nested-denied",
        main=_NESTED,
        team=_BENEATH,
        answered=Answered.ELSEWHERE,
        answer=no,
    ),
    Scenario(
        name="delegate-fails",
        main=Part([[to("helper"), LOOK], *SHIP], delegates=("helper",)),
        team={"helper": Part(FAILS)},
    ),
    Scenario(
        name="delegate-budget-asks",
        main=Part([[to("helper")]], delegates=("helper",)),
        team={"helper": Part(CHARGE)},
        budget=Budget(steps=2, at_limit="ask"),
    ),
    Scenario(
        name="delegate-superseded",
        main=Part([[to("helper")]], delegates=("helper",), remembers=True),
        team={"helper": Part([*CHARGE, *ASK])},
        said=_OVERTAKEN,
        answered=Answered.NEVER,
        holds=told_what_was_done,
    ),
    Scenario(
        name="nested-superseded",
        main=Part([[to("middle")]], delegates=("middle",), remembers=True),
        team={
            "middle": Part([[to("leaf")]], delegates=("leaf",)),
            "leaf": Part([[*CHARGE[0], LOOK], *ASK]),
        },
        said=_OVERTAKEN,
        answered=Answered.NEVER,
        holds=told_what_was_done,
    ),
    Scenario(
        name="nested-cancelled-while-it-waits",
        main=_NESTED,
        team=_BENEATH,
        answered=Answered.ELSEWHERE,
        cancelled=Cancelled.LATER,
    ),
    Scenario(
        name="delegates-cancelled-when-orphaned",
        main=Part(
            [[to("middle"), to("far"), ("put", {"order": 1})]],
            delegates=("middle", "far"),
            background=("put",),
        ),
        team={
            "middle": Part([[to("leaf")]], delegates=("leaf",)),
            "leaf": Part(CHARGE),
            "far": Far(),
        },
        cancelled=Cancelled.LATER,
    ),
)


# -- hand-offs --------------------------------------------------------------------------------


def _handed(name: str, plan: Plan, answered: Answered = Answered.BY_ITSELF) -> Scenario:
    """`main` and `second` follow one plan, and hand the conversation back and forth."""
    main = Part(plan, handoffs=(Handoff("second", returns=True),))
    return Scenario(name=name, main=main, team={"second": Part(plan)}, answered=answered)


HANDOFFS = (
    _handed("handoff", [[hand_to("second")], *CHARGE]),
    _handed("handoff-and-back", [[hand_to("second")], *CHARGE, [hand_to("main")], *SHIP]),
    _handed("handoff-beside-a-deed", [[*CHARGE[0], hand_to("second")], *SHIP]),
    _handed("handoff-asks", [[hand_to("second")], *ASK], answered=Answered.ELSEWHERE),
    Scenario(
        name="delegate-hands-off",
        main=Part([[to("first")]], delegates=("first",)),
        team={
            "first": Part([[hand_to("second")], *CHARGE], handoffs=(Handoff("second"),)),
            "second": Part([[hand_to("second")], *CHARGE]),
        },
    ),
)


# -- tasks ------------------------------------------------------------------------------------


def tasks_in(final: ThreadDump) -> Iterator[tuple[ThreadDump, RunRecord]]:
    """The tasks there were, with the thread of whoever owns them."""
    for thread in final.threads():
        for child in thread.children:
            yield from ((thread, run) for run in child.runs if task_of(run) is not None)


def told_once(final: ThreadDump) -> Iterable[str]:
    """Each task has a name of its own, and its owner was told once how it ended."""
    names = Counter(
        (owner.thread_id, task_of(run)["task"]["task_id"]) for owner, run in tasks_in(final)
    )
    yield from (f"{times} tasks are called {id}" for (_, id), times in names.items() if times > 1)
    for owner, run in tasks_in(final):
        told = sum(message.id == f"{run.run_id}:end" for message in owner.messages)
        if told != 1:
            yield f"the end of task {run.run_id} was told {told} times"


def completed(final: ThreadDump) -> Iterable[str]:
    """The same, and each has done what it was to do."""
    yield from told_once(final)
    for _, run in tasks_in(final):
        if run.termination_reason != NATURAL_END:
            yield f"task {run.run_id} ended as {run.termination_reason}"


_PUT: Call = ("put", {"order": 1})

TASKS = (
    Scenario(name="task", main=Part([[_PUT], *CHARGE], background=("put",)), holds=completed),
    Scenario(name="task-once", main=Part(CHARGE, background=("charge",)), holds=told_once),
    Scenario(
        name="task-fails",
        main=Part([[("drop", {"order": 1})]], background=("drop",)),
        holds=told_once,
    ),
    Scenario(
        name="task-approved",
        main=Part(ASK, background=("refund",)),
        answered=Answered.ELSEWHERE,
        holds=told_once,
    ),
    Scenario(
        name="two-tasks",
        main=Part([[_PUT, *CHARGE[0], *SHIP[0]]], background=("put", "charge", "ship")),
        holds=told_once,
    ),
    Scenario(
        name="two-tasks-awaited",
        main=Part([[_PUT, *CHARGE[0]], [("wait_task", {})]], background=("put", "charge")),
        holds=told_once,
        volatile={"wait_task"},
    ),
    Scenario(
        name="agent-task",
        main=Part([[to("helper")], *SHIP], background=("helper",)),
        team={"helper": Part(CHARGE)},
        holds=completed,
    ),
    Scenario(
        name="agent-task-asks",
        main=Part([[to("helper")]], background=("helper",)),
        team={"helper": Part([*ASK, *SHIP])},
        holds=completed,
    ),
    Scenario(
        name="handoff-with-a-task",
        main=Part(
            [[_PUT, hand_to("second")], *CHARGE],
            background=("put",),
            handoffs=(Handoff("second"),),
        ),
        team={"second": Part([[hand_to("second")], *CHARGE])},
        holds=completed,
    ),
    Scenario(
        name="delegate-with-a-task",
        main=Part([[to("helper")]], delegates=("helper",)),
        team={"helper": Part([[_PUT], *CHARGE], background=("put",))},
        holds=completed,
    ),
)


# -- messages ---------------------------------------------------------------------------------


def arrived_once(final: ThreadDump) -> Iterable[str]:
    """What one agent wrote to another is in the other's thread, and nowhere else."""
    texts = [message.text() for thread in final.threads() for message in thread.messages]
    came = texts.count("A word.")
    return [] if came == 1 else [f"what was written came {came} times"]


MESSAGES = (
    Scenario(
        name="message-to-a-neighbour",
        main=Part([[write("A word.", relation="agent", thread_id=NEIGHBOUR)]], writes=True),
        team={"neighbour": Part(SHIP, heeds=True)},
        said=(Said(text="Hello!", agent="neighbour", thread=NEIGHBOUR), Said()),
        holds=arrived_once,
        volatile={"send_message"},
    ),
    Scenario(
        name="message-to-a-parent",
        main=Part([[to("helper")], *SHIP], delegates=("helper",)),
        team={"helper": Part([[write("A word.", relation="parent")], *CHARGE], writes=True)},
        holds=arrived_once,
        volatile={"send_message"},
    ),
)


# -- agents elsewhere -------------------------------------------------------------------------


def _far(
    name: str,
    *texts: str,
    cancelled: Cancelled = Cancelled.NEVER,
    answered: Answered = Answered.BY_ITSELF,
) -> Scenario:
    return Scenario(
        answered=answered,
        name=name,
        team={"far": Far()},
        said=tuple(Said(text=text, agent="far") for text in texts),
        cancelled=cancelled,
    )


REMOTE = (
    _far("remote", "Do it."),
    _far("remote-twice", "Do it.", "Do the other."),
    _far("remote-asks", "Do it, and ask.", "Blue."),
    _far("remote-fails", "Do it, and fail."),
    _far("remote-cancelled", "Do it for ever.", cancelled=Cancelled.LIVE),
    _far("remote-cancelled-when-orphaned", "Do it.", cancelled=Cancelled.LATER),
    _far(
        "remote-cancelled-while-it-waits",
        "Do it, and ask.",
        cancelled=Cancelled.LATER,
        answered=Answered.ELSEWHERE,
    ),
    _far("remote-cancelled-with-an-answer", "Do it, and ask.", cancelled=Cancelled.LATER),
    Scenario(
        name="remote-delegate",
        main=Part([[to("far"), LOOK], *SHIP], delegates=("far",)),
        team={"far": Far()},
    ),
    Scenario(
        name="remote-delegate-asks",
        main=Part([[to("far", "Do it, and ask."), LOOK]], delegates=("far",)),
        team={"far": Far()},
        answered=Answered.ELSEWHERE,
        answer=blue,
    ),
    Scenario(
        name="remote-delegate-fails",
        main=Part([[to("far", "Do it, and fail.")], *SHIP], delegates=("far",)),
        team={"far": Far()},
    ),
    Scenario(
        name="remote-task",
        main=Part([[to("far")], *SHIP], background=("far",)),
        team={"far": Far()},
        holds=completed,
    ),
)

SCENARIOS = {
    scenario.name: scenario
    for scenario in (*ALONE, *SERVED, *DELEGATES, *HANDOFFS, *TASKS, *MESSAGES, *REMOTE)
}
