"""What the crash matrix plays: agents whose tools change the world outside.

The model reads the conversation and nothing else: asked again with the same history, it gives the
same answer. Tools take as long as the seed says.
"""

from __future__ import annotations

import asyncio
import operator
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from awaken import (
    Agent,
    Command,
    Merge,
    PhaseContext,
    Registrar,
    Scope,
    StateKey,
    Suspend,
    ToolCallContext,
    ToolCallResume,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.codec import Json
from awaken.contract.llm import InferenceRequest
from awaken.contract.tool import Tool
from awaken.domain.inference import StreamResult, TokenUsage
from awaken.domain.intercept import ToolInterceptPayload
from awaken.domain.message import Message, Role
from awaken.domain.recovery import OUTCOME_UNKNOWN
from awaken.domain.ticket import Ticket
from awaken.domain.tool import ToolError
from awaken.testing import FunctionModel, text_response, tool_calls_response
from awaken.testing.chaos import (
    KillSwitch,
    NoteKind,
    Picture,
    Witness,
    watched_model,
    watched_tool,
)

THREAD = "t1"
DELEGATE = "agent_run_helper"

Call = tuple[str, dict[str, Any]]
Plan = Sequence[Sequence[Call]]
"""What the model wants, step by step: tools and their arguments."""

COUNT: StateKey[int, int] = StateKey(
    "shop.count",
    initial=int,
    apply=operator.add,
    merge=Merge.COMMUTATIVE,
    scope=Scope.THREAD,
)

_PAUSES = (0.0, 0.0, 0.0, 0.001, 0.002, 0.005)


class World:
    """What the tools act upon: each deed is written down, and takes its time."""

    def __init__(self, switch: KillSwitch, seed: int) -> None:
        self.switch, self.witness, self._seed = switch, switch.witness, seed

    async def act(self, ctx: ToolCallContext, what: Json) -> None:
        """Do something that can be seen from outside."""
        await asyncio.sleep(self._pause(ctx, "before"))
        self._do(ctx, what)
        await asyncio.sleep(self._pause(ctx, "after"))

    def act_in_thread(self, ctx: ToolCallContext, what: Json) -> None:
        time.sleep(self._pause(ctx, "before"))
        self._do(ctx, what)
        time.sleep(self._pause(ctx, "after"))

    def _do(self, ctx: ToolCallContext, what: Json) -> None:
        self.witness.note(NoteKind.EFFECT, ctx.tool_name, ctx.idempotency_key, what)
        self.switch.reach(f"effect of {ctx.tool_name}")

    def _pause(self, ctx: ToolCallContext, when: str) -> float:
        return random.Random(f"{self._seed}:{ctx.tool_name}:{ctx.arguments}:{when}").choice(_PAUSES)

    def happened(self, key: str) -> bool:
        return any(
            note.kind is NoteKind.EFFECT and note.key == key for note in self.witness.notes()
        )


# -- tools ------------------------------------------------------------------------------------


def shop(world: World) -> dict[str, Tool]:
    """Everything an agent of these scenarios can do."""
    tools = (*_deeds(world), *_repeatable(world), *_asking(world), *_counting(world))
    return {item.descriptor().id: watched_tool(item, world.switch) for item in tools}


def _deeds(world: World) -> Iterable[Tool]:
    @tool
    async def charge(order: int, ctx: ToolCallContext) -> str:
        """Take the money."""
        await world.act(ctx, order)
        return f"charged {order}"

    @tool
    async def ship(order: int, ctx: ToolCallContext) -> str:
        """Send the goods."""
        await world.act(ctx, order)
        return f"shipped {order}"

    @tool
    def print_label(order: int, ctx: ToolCallContext) -> str:
        """Print a label, in a thread of its own."""
        world.act_in_thread(ctx, order)
        return f"printed {order}"

    @tool(sequential=True)
    async def seal(order: int, ctx: ToolCallContext) -> str:
        """Seal the parcel; nothing else is done meanwhile."""
        await world.act(ctx, order)
        return f"sealed {order}"

    @tool
    async def drop(order: int, ctx: ToolCallContext) -> str:
        """Do something, and fail all the same."""
        await world.act(ctx, order)
        raise ToolError.execution_failed(f"dropped {order}")

    return charge, ship, print_label, seal, drop


def _repeatable(world: World) -> Iterable[Tool]:
    @tool(effect="read")
    async def look(order: int, ctx: ToolCallContext) -> str:
        """Look an order up."""
        await world.act(ctx, order)
        return f"order {order}: one chair"

    @tool(effect="idempotent")
    async def put(order: int, ctx: ToolCallContext) -> str:
        """Note the order's place."""
        await world.act(ctx, order)
        return f"put {order}"

    return look, put


def _asking(world: World) -> Iterable[Tool]:
    @tool(needs_approval=True)
    async def refund(order: int, euros: int, ctx: ToolCallContext) -> str:
        """Pay back."""
        await world.act(ctx, [order, euros])
        return f"refunded {euros} for {order}"

    async def has_shipped(ctx: ToolCallContext) -> bool | str:
        return f"shipped {ctx.arguments['order']}" if world.happened(ctx.idempotency_key) else False

    @tool(recover="verify", verify=has_shipped)
    async def ship_verified(order: int, ctx: ToolCallContext) -> str:
        """Send the goods; the carrier knows whether it was done."""
        await world.act(ctx, order)
        return f"shipped {order}"

    @tool(recover="ask")
    async def ship_asking(order: int, ctx: ToolCallContext) -> str:
        """Send the goods; a person looks whether it was done."""
        await world.act(ctx, order)
        return f"shipped {order}"

    return refund, ship_verified, ship_asking


def _counting(world: World) -> Iterable[Tool]:
    @tool
    async def count(by: int, ctx: ToolCallContext) -> ToolOutput:
        """Add to the thread's count."""
        await world.act(ctx, by)
        return ToolOutput(ToolResult.success("count", by), Command().update(COUNT, by))

    @tool(effect="idempotent")
    async def count_again(by: int, ctx: ToolCallContext) -> ToolOutput:
        """Add to the thread's count; doing it twice is doing it once."""
        await world.act(ctx, by)
        return ToolOutput(ToolResult.success("count_again", by), Command().update(COUNT, by))

    return count, count_again


READS = frozenset({"look"})
ONCE = frozenset(
    {"charge", "ship", "print_label", "seal", "drop", "refund", "ship_verified", "ship_asking"}
    | {"count"}
)


class Doorkeeper:
    """A plugin that wants every charge to be approved."""

    id = "doorkeeper"

    def register(self, registrar: Registrar) -> None:
        registrar.gate(self.ask)

    async def ask(self, ctx: PhaseContext) -> ToolInterceptPayload | None:
        if ctx.tool_name != "charge" or ctx.resume_input is not None:
            return None
        return Suspend.ask("Really?")


# -- the model --------------------------------------------------------------------------------


def planned(plan: Plan, witness: Witness) -> Any:
    """A model that follows a plan by what it sees, and at the end says how much it has seen."""

    def answer(request: InferenceRequest) -> StreamResult:
        turns = sum(message.is_visible_user() for message in request.messages)
        turn = _last_turn(request.messages)
        step = sum(bool(message.tool_calls) for message in turn)
        if step < len(plan):
            # Call ids repeat from turn to turn, as some providers' do; orders do not.
            said = tool_calls_response(
                f"step {step + 1}",
                *(
                    (name, f"c{step}_{i}", _ordered(args, turns))
                    for i, (name, args) in enumerate(plan[step])
                ),
            )
        else:
            results = sum(message.role is Role.TOOL for message in turn)
            said = text_response(f"done, with {results} results")
        return msgspec.structs.replace(
            said, usage=TokenUsage(prompt_tokens=7, completion_tokens=3, total_tokens=10)
        )

    return watched_model(FunctionModel(answer), witness)


def _last_turn(messages: Sequence[Message]) -> list[Message]:
    """What came after the user's last message."""
    start = max(i for i, message in enumerate(messages) if message.is_visible_user())
    return list(messages[start + 1 :])


def _ordered(args: dict[str, Any], turn: int) -> Json:
    return args | {"order": args["order"] + 10 * (turn - 1)} if "order" in args else args


# -- scenarios --------------------------------------------------------------------------------


class Answered(Enum):
    """Who answers when a call waits, and when."""

    BY_ITSELF = "the process that ran, or its successor"
    ELSEWHERE = "another process, when the first one has ended"
    LIVE = "another process, while the first one waits"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A conversation to be killed.

    Args:
        prompts: what the user says, a run each.
        answer: what a person says to a ticket, knowing the world.
        holds: further sentences about what is wrong at the end, beside what is always checked.
        once: the tools that must not take effect twice.
    """

    name: str
    plan: Plan
    prompts: tuple[str, ...] = ("Go!",)
    sequential: bool = False
    gated: bool = False
    delegate_plan: Plan = ()
    answered: Answered = Answered.BY_ITSELF
    answer: Callable[[Ticket, World], ToolCallResume] = lambda ticket, world: yes(ticket, world)
    holds: Callable[[Picture], Iterable[str]] = lambda final: ()
    once: frozenset[str] = field(default=ONCE)

    def agents(self, world: World) -> list[Agent]:
        tools = shop(world)
        helpers = []
        if self.delegate_plan:
            helpers = [
                Agent(
                    "helper",
                    model=planned(self.delegate_plan, world.witness),
                    tools=_used(tools, self.delegate_plan),
                )
            ]
        main = Agent(
            "main",
            model=planned(self.plan, world.witness),
            tools=_used(tools, self.plan),
            delegates=helpers,
            state=[COUNT],
            plugins=[Doorkeeper()] if self.gated else [],
            sequential=self.sequential,
        )
        return [main, *helpers]


def _used(tools: dict[str, Tool], plan: Plan) -> list[Tool]:
    return [
        tools[name] for name in dict.fromkeys(n for step in plan for n, _ in step) if name in tools
    ]


def yes(ticket: Ticket, world: World) -> ToolCallResume:
    """Approve; to the question whether something happened, say what happened."""
    asker = ticket.asker
    reason, key = (ticket.reason, ticket.key) if asker is None else (asker.reason, asker.ticket)
    if reason != OUTCOME_UNKNOWN:
        return ToolCallResume.approve(by="ann")
    if world.happened((key or "").partition("#")[0]):
        return ToolCallResume.approve("seen at the carrier", by="ann")
    return ToolCallResume.deny("it did not happen", by="ann")


def _less(ticket: Ticket, world: World) -> ToolCallResume:
    return ToolCallResume.edit({"order": 1, "euros": 5}, by="ann")


def _no(ticket: Ticket, world: World) -> ToolCallResume:
    return ToolCallResume.deny("too much", by="ann")


def _never_unknown(final: Picture) -> Iterable[str]:
    return [f"{call.tool_name} is {call.phase}" for call in final.calls if call.phase == "unknown"]


def _count_fits(final: Picture) -> Iterable[str]:
    """The count is the sum of the calls that are known to have succeeded."""
    wanted = sum(
        call.arguments["by"]
        for call in final.calls
        if call.tool_name.startswith("count") and call.phase == "succeeded"
    )
    stored = final.state.extensions if final.state else {}
    counted = COUNT.load(stored[COUNT.name]) if COUNT.name in stored else 0
    return [] if counted == wanted else [f"counted {counted}, not {wanted}"]


_REFUND: Plan = [[("look", {"order": 1}), ("refund", {"order": 1, "euros": 9})]]

LIAR = Scenario(
    name="liar", plan=[[("charge", {"order": 1}), ("put", {"order": 1})]], once=ONCE | {"put"}
)
"""Its `put` is declared idempotent and is not: the matrix must find that out."""

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(name="one-call", plan=[[("charge", {"order": 1})]]),
        Scenario(
            name="charge-then-ship",
            plan=[[("charge", {"order": 1})], [("ship", {"order": 1})]],
        ),
        Scenario(
            name="side-by-side",
            plan=[
                [
                    ("look", {"order": 1}),
                    ("charge", {"order": 1}),
                    ("put", {"order": 1}),
                    ("print_label", {"order": 1}),
                    ("ship", {"order": 1}),
                ],
                [("charge", {"order": 2}), ("look", {"order": 2})],
            ],
        ),
        Scenario(
            name="one-after-another",
            plan=[[("charge", {"order": 1}), ("put", {"order": 1}), ("ship", {"order": 1})]],
            sequential=True,
        ),
        Scenario(
            name="alone-among-others",
            plan=[
                [
                    ("look", {"order": 1}),
                    ("charge", {"order": 1}),
                    ("seal", {"order": 1}),
                    ("ship", {"order": 1}),
                ]
            ],
        ),
        Scenario(name="failing", plan=[[("drop", {"order": 1}), ("charge", {"order": 1})]]),
        Scenario(
            name="approval-by-a-gate",
            plan=[[("look", {"order": 1}), ("charge", {"order": 1})], [("ship", {"order": 1})]],
            gated=True,
        ),
        Scenario(
            name="two-turns",
            plan=[[("look", {"order": 1}), ("charge", {"order": 1})]],
            prompts=("Go!", "Once more!"),
        ),
        Scenario(name="approval", plan=[*_REFUND, [("ship", {"order": 1})]]),
        Scenario(name="approval-elsewhere", plan=_REFUND, answered=Answered.ELSEWHERE),
        Scenario(name="approval-while-waiting", plan=_REFUND, answered=Answered.LIVE),
        Scenario(
            name="approval-edited",
            plan=_REFUND,
            answered=Answered.ELSEWHERE,
            answer=_less,
        ),
        Scenario(name="approval-denied", plan=_REFUND, answered=Answered.ELSEWHERE, answer=_no),
        Scenario(
            name="delegate",
            plan=[[(DELEGATE, {"prompt": "Charge it."}), ("look", {"order": 2})]],
            delegate_plan=[[("charge", {"order": 1})]],
        ),
        Scenario(
            name="delegate-asks",
            plan=[[(DELEGATE, {"prompt": "Refund it."}), ("look", {"order": 2})]],
            delegate_plan=[*_REFUND, [("ship_asking", {"order": 1})]],
        ),
        Scenario(
            name="delegate-asks-elsewhere",
            plan=[[("charge", {"order": 1})], [(DELEGATE, {"prompt": "Refund it."})]],
            delegate_plan=_REFUND,
            answered=Answered.ELSEWHERE,
            answer=_less,
        ),
        Scenario(
            name="delegate-asks-while-waiting",
            plan=[[(DELEGATE, {"prompt": "Refund it."})]],
            delegate_plan=_REFUND,
            answered=Answered.LIVE,
        ),
        Scenario(
            name="verify",
            plan=[[("charge", {"order": 1})], [("ship_verified", {"order": 1})]],
        ),
        Scenario(
            name="ask",
            plan=[[("ship_asking", {"order": 1}), ("look", {"order": 1})]],
            holds=_never_unknown,
        ),
        Scenario(
            name="count",
            plan=[
                [("count", {"by": 1}), ("count_again", {"by": 10})],
                [("count", {"by": 100}), ("count_again", {"by": 1000})],
            ],
            holds=_count_fits,
        ),
    )
}
