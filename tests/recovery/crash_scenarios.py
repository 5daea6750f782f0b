"""What the crash matrix plays with one agent; `crash_teams` has what it plays with several.

A scenario is a conversation to be killed, with who takes part in it and what must hold of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from crash_service import SERVICE
from crash_world import (
    COUNT,
    KILLS,
    ONCE,
    SHOP,
    SURVEY,
    SURVEY_ID,
    Doorkeeper,
    Plan,
    World,
    planned,
)

from awaken import Agent, Budget, RemoteAgent, ToolCallResume
from awaken.core.lifecycle import NATURAL_END, Failed
from awaken.core.suspension import Ticket
from awaken.core.tool import ABANDONED, OUTCOME_UNKNOWN
from awaken.ext.handoff import Handoff
from awaken.ext.tasks import BackgroundTaskPlugin
from awaken.testing.chaos import ThreadDump, watch_tool

THREAD = "t1"


# -- who takes part ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """An agent of a scenario.

    Args:
        plan: what its model wants; it has the tools for that.
        background: which of them, and which agents, it starts as tasks.
        writes: whether it may write to other threads.
        heeds: whether what another agent writes to it is a prompt, and not just news.
        remembers: whether it leaves its plan alone once it sees a result of an earlier turn.
    """

    plan: Plan = ()
    sequential: bool = False
    gated: bool = False
    delegates: tuple[str, ...] = ()
    background: tuple[str, ...] = ()
    handoffs: tuple[Handoff, ...] = ()
    writes: bool = False
    heeds: bool = False
    remembers: bool = False


@dataclass(frozen=True)
class Far:
    """An agent on the service; a careless one does not keep that it is about to send."""

    careless: bool = False


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the user says, to whom and where; and what a submission of it does to open runs."""

    text: str = "Go!"
    agent: str = "main"
    thread: str = THREAD
    mode: Literal["queue", "interrupt"] = "queue"


class Answered(Enum):
    """Who answers when a call waits, and when."""

    BY_ITSELF = "the process that ran, or its successor"
    ELSEWHERE = "another process, when the first one has ended"
    LIVE = "another process, while the first one waits"
    NEVER = "nobody: the user says something else instead"


class Cancelled(Enum):
    """Who wants the conversation to end, and when."""

    NEVER = "nobody"
    LATER = "the process after the first, if there is something to end"
    LIVE = "another process, while the first one runs"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A conversation to be killed.

    Args:
        team: who takes part beside `main`, by name.
        said: what the user says, one after the other.
        submitted: whether the user submits everything at once, and waits for nothing.
        leaves_behind: whether the first process puts a delegate into the store that waits for a run
            that has ended.
        followed: whether a process follows `THREAD` under every seed, not just under some.
        answer: what a person says to a ticket, knowing the world.
        holds: further sentences about what is wrong at the end, beside what is always checked.
        once: the tools that must not take effect twice.
        volatile: tools whose results hold ids or times.
    """

    name: str
    main: Part = Part()
    team: Mapping[str, Part | Far] = field(default_factory=dict)
    said: tuple[Said, ...] = (Said(),)
    submitted: bool = False
    followed: bool = False
    leaves_behind: bool = False
    budget: Budget | None = None
    answered: Answered = Answered.BY_ITSELF
    cancelled: Cancelled = Cancelled.NEVER
    answer: Callable[[Ticket, World], ToolCallResume] = lambda ticket, world: yes(ticket, world)
    holds: Callable[[ThreadDump], Iterable[str]] = lambda final: ()
    once: frozenset[str] = ONCE
    volatile: Collection[str] = ()

    @property
    def in_background(self) -> frozenset[str]:
        """What agents start as tasks."""
        parts = [self.main, *(part for part in self.team.values() if isinstance(part, Part))]
        return frozenset(item for part in parts for item in part.background)

    @property
    def is_deadly(self) -> bool:
        """Whether a tool of it kills its process, whoever plays it."""
        return any(tool in KILLS for step in self.main.plan for tool, _ in step)

    @property
    def is_interrupted(self) -> bool:
        """Whether the user interrupts runs, at whichever point they are."""
        return any(said.mode == "interrupt" for said in self.said)

    @property
    def is_careless(self) -> bool:
        return any(isinstance(part, Far) and part.careless for part in self.team.values())

    def agents(self, world: World) -> list[Agent | RemoteAgent]:
        known: dict[str, Agent | RemoteAgent] = {}
        # Those an agent starts as tasks have to be there before it.
        for name, part in reversed(({"main": self.main} | dict(self.team)).items()):
            if isinstance(part, Far):
                known[name] = RemoteAgent(name, "https://far.example", backend=SERVICE)
            else:
                known[name] = _agent(name, part, known, world)
        return list(known.values())


def _agent(name: str, part: Part, known: Mapping[str, Agent | RemoteAgent], world: World) -> Agent:
    wanted = dict.fromkeys(tool for step in part.plan for tool, _ in step if tool in SHOP)
    tools = {tool: watch_tool(SHOP[tool], world.switch) for tool in wanted}
    plugins: list[Any] = [Doorkeeper()] if part.gated else []
    if part.writes:
        plugins.append(BackgroundTaskPlugin(policy=lambda *_: None))
    return Agent(
        name,
        model=planned(
            name, part.plan, world.effect_log, heeds=part.heeds, remembers=part.remembers
        ),
        tools=[tool for name, tool in tools.items() if name not in part.background],
        delegates=part.delegates,
        background=[tools.get(item) or known[item] for item in part.background],
        handoffs=part.handoffs,
        state=[COUNT],
        plugins=plugins,
        sequential=part.sequential,
    )


# -- answers ----------------------------------------------------------------------------------


def yes(ticket: Ticket, world: World) -> ToolCallResume:
    """Approve; to the question whether something happened, say what happened."""
    asker = ticket.asker
    reason, key = (ticket.reason, ticket.key) if asker is None else (asker.reason, asker.ticket)
    if reason != OUTCOME_UNKNOWN:
        return ToolCallResume.approve(by="ann")
    if world.happened((key or "").partition("#")[0]):
        return ToolCallResume.approve("seen at the carrier", by="ann")
    return ToolCallResume.deny("it did not happen", by="ann")


def less(ticket: Ticket, world: World) -> ToolCallResume:
    return ToolCallResume.edit({"order": 1, "euros": 5}, by="ann")


def no(ticket: Ticket, world: World) -> ToolCallResume:
    return ToolCallResume.deny("too much", by="ann")


# -- what else must hold ----------------------------------------------------------------------


def never_unknown(final: ThreadDump) -> Iterable[str]:
    return [
        f"{call.tool_name} is {call.phase}"
        for thread in final.threads()
        for call in thread.calls
        if call.phase == "unknown"
    ]


def _is_abandoned(final: ThreadDump) -> Iterable[str]:
    """The run that kills was given up, and the one after it was not."""
    ends = {run.agent_id: run.termination_reason for run in final.runs}
    if ends != {"main": Failed(value=ABANDONED), "clerk": NATURAL_END}:
        yield f"the runs ended as {ends}"


def _has_read_the_end(final: ThreadDump) -> Iterable[str]:
    """The large result was kept in a blob, whichever process wrote it, and read from there."""
    read = [m.text() for m in final.messages if "this is its end" in m.text()]
    if [text.partition("\n")[0] for text in read] != ["table; "]:
        yield f"the end of the large result was read as {read}"


def _count_fits(final: ThreadDump) -> Iterable[str]:
    """The count is the sum of the calls that are known to have succeeded."""
    wanted = sum(
        call.arguments["by"]
        for call in final.calls
        if call.tool_name.startswith("count") and call.phase == "succeeded"
    )
    stored = final.state.extensions if final.state else {}
    counted = COUNT.load(stored[COUNT.name]) if COUNT.name in stored else 0
    return [] if counted == wanted else [f"counted {counted}, not {wanted}"]


# -- the scenarios ----------------------------------------------------------------------------


REFUND: Plan = [[("look", {"order": 1}), ("refund", {"order": 1, "euros": 9})]]

LIAR = Scenario(
    name="liar",
    main=Part([[("charge", {"order": 1}), ("put", {"order": 1})]]),
    once=ONCE | {"put"},
)
"""Its `put` is declared idempotent and is not: the matrix must find that out."""

CARELESS = Scenario(
    name="careless", team={"far": Far(careless=True)}, said=(Said(text="Do it.", agent="far"),)
)
"""What it sends before a crash is sent again: the matrix must find what is left of that."""

ORPHANED = Scenario(name="orphaned", main=Part([[("charge", {"order": 1})]]), leaves_behind=True)
"""A delegate is in the store whose parent run has ended: the matrix must find it at a kill, though
a recovery ends it later."""

ALONE = (
    Scenario(name="one-call", main=Part([[("charge", {"order": 1})]])),
    Scenario(
        name="charge-then-ship",
        main=Part([[("charge", {"order": 1})], [("ship", {"order": 1})]]),
    ),
    Scenario(
        name="side-by-side",
        main=Part(
            [
                [
                    ("look", {"order": 1}),
                    ("charge", {"order": 1}),
                    ("put", {"order": 1}),
                    ("print_label", {"order": 1}),
                    ("ship", {"order": 1}),
                ],
                [("charge", {"order": 2}), ("look", {"order": 2})],
            ]
        ),
    ),
    Scenario(
        name="one-after-another",
        main=Part(
            [[("charge", {"order": 1}), ("put", {"order": 1}), ("ship", {"order": 1})]],
            sequential=True,
        ),
    ),
    Scenario(
        name="alone-among-others",
        main=Part(
            [
                [
                    ("look", {"order": 1}),
                    ("charge", {"order": 1}),
                    ("seal", {"order": 1}),
                    ("ship", {"order": 1}),
                ]
            ]
        ),
    ),
    Scenario(name="failing", main=Part([[("drop", {"order": 1}), ("charge", {"order": 1})]])),
    Scenario(
        name="approval-by-a-gate",
        main=Part(
            [[("look", {"order": 1}), ("charge", {"order": 1})], [("ship", {"order": 1})]],
            gated=True,
        ),
    ),
    Scenario(
        name="two-turns",
        main=Part([[("look", {"order": 1}), ("charge", {"order": 1})]]),
        said=(Said(), Said(text="Once more!")),
    ),
    Scenario(name="approval", main=Part([*REFUND, [("ship", {"order": 1})]])),
    Scenario(name="approval-elsewhere", main=Part(REFUND), answered=Answered.ELSEWHERE),
    Scenario(name="approval-while-waiting", main=Part(REFUND), answered=Answered.LIVE),
    Scenario(name="approval-edited", main=Part(REFUND), answered=Answered.ELSEWHERE, answer=less),
    Scenario(name="approval-denied", main=Part(REFUND), answered=Answered.ELSEWHERE, answer=no),
    Scenario(
        name="verify",
        main=Part([[("charge", {"order": 1})], [("ship_verified", {"order": 1})]]),
    ),
    Scenario(
        name="ask",
        main=Part([[("ship_asking", {"order": 1}), ("look", {"order": 1})]]),
        holds=never_unknown,
    ),
    Scenario(
        name="count",
        main=Part(
            [
                [("count", {"by": 1}), ("count_again", {"by": 10})],
                [("count", {"by": 100}), ("count_again", {"by": 1000})],
            ]
        ),
        holds=_count_fits,
    ),
    Scenario(
        name="large-result",
        main=Part(
            [
                [("charge", {"order": 1}), ("survey", {"order": 1})],
                [("read_result", {"id": SURVEY_ID, "offset": len(SURVEY) - 7})],
                [("ship", {"order": 1})],
            ]
        ),
        holds=_has_read_the_end,
    ),
    Scenario(
        name="crash-loop",
        main=Part([[("crash", {"order": 1})]]),
        team={"clerk": Part([[("ship", {"order": 2})]])},
        said=(Said(), Said(text="Then you.", agent="clerk")),
        holds=_is_abandoned,
    ),
    Scenario(
        name="submitted",
        main=Part([[("look", {"order": 1}), ("charge", {"order": 1})], [("ship", {"order": 1})]]),
        submitted=True,
    ),
    Scenario(
        name="submitted-in-a-row",
        main=Part([[("charge", {"order": 1})]]),
        said=(Said(), Said(text="Once more!"), Said(text="And again!")),
        submitted=True,
    ),
    Scenario(
        name="submitted-and-approved",
        main=Part(REFUND),
        said=(Said(), Said(text="Then ship.", agent="clerk")),
        team={"clerk": Part([[("ship", {"order": 2})]])},
        submitted=True,
    ),
    Scenario(
        name="budget-asks",
        main=Part([[("charge", {"order": 1})], [("ship", {"order": 1})]]),
        budget=Budget(steps=1, at_limit="ask"),
    ),
)
