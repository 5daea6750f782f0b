"""The story of `awaken demo`: a small shop, two agents, and a broken mug.

Only the model's answers are scripted. Each follows from the conversation so far, so that a refusal
leads to another ending, and a process that starts in the middle continues correctly. Tools, state,
approval, hand-over and recovery are the runtime's own. The books are a file that stands for the
outside world: its entries survive the process.

A third agent counts the shop's shelves, and is at work for a minute or two.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json, dumps, dumps_text, loads
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop, Usage
from awaken.core.message import Message, Role
from awaken.core.state.command import Command
from awaken.core.state.key import Merge, Scope, StateKey
from awaken.core.tool import ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput
from awaken.runtime import Agent
from awaken.tool import tool

PROMPT = "My mug from order 1042 arrived in pieces. Can I have my money back?"


def story_agents(speed: float, books: EffectFile, hooks: EffectHooks) -> list[Agent]:
    """The two agents, ready to run; `speed` 1 is for watching, 0 for tests."""
    shop = Shop(speed, books, hooks)
    return [
        Agent(
            "support",
            model=Storyteller(support, speed),
            tools=[
                tool(shop.find_order, effect="read"),
                tool(shop.track_parcel, effect="read"),
                tool(shop.read_policy, effect="read"),
                tool(shop.refund, needs_approval=True, verify=shop.verify),
            ],
            state=[CASE],
            handoffs=["shipping"],
        ),
        Agent(
            "shipping",
            model=Storyteller(shipping, speed),
            tools=[tool(shop.book_pickup), tool(shop.send_again, verify=shop.verify)],
            state=[CASE],
        ),
    ]


# -- the state --------------------------------------------------------------------------------


class CaseFile(msgspec.Struct, frozen=True):
    """The facts about a case, and what they cost."""

    facts: dict[str, str] = {}
    cost_cents: int = 0


class Finding(msgspec.Struct, frozen=True):
    """One more fact."""

    source: str
    fact: str
    cents: int


def _add_finding(case: CaseFile, found: Finding) -> CaseFile:
    facts = {**case.facts, found.source: found.fact}
    return CaseFile(dict(sorted(facts.items())), case.cost_cents + found.cents)


CASE: StateKey[CaseFile, Finding] = StateKey(
    "case", initial=CaseFile, apply=_add_finding, merge=Merge.COMMUTATIVE, scope=Scope.THREAD
)


# -- the tools --------------------------------------------------------------------------------

LOOKUPS = {"find_order": 0.9, "track_parcel": 1.5, "read_policy": 0.5}
"""The tools that run at the same time, and how many seconds each takes."""


class Shop:
    """The tools; `speed` 0 makes them answer at once."""

    def __init__(
        self, speed: float, books: EffectFile, hooks: EffectHooks, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._speed, self._clock = speed, clock
        self._books, self._hooks = books, hooks

    async def find_order(self, number: int) -> ToolOutput:
        """Look an order up."""
        return await self._record_fact("find_order", "order", "one blue mug, 24 €, paid", 2)

    async def track_parcel(self, order: int) -> ToolOutput:
        """Ask the carrier about a parcel."""
        return await self._record_fact("track_parcel", "parcel", "delivered, box dented", 3)

    async def read_policy(self, topic: str) -> ToolOutput:
        """Read the shop's rules."""
        return await self._record_fact("read_policy", "rules", "refund within 30 days", 1)

    async def refund(self, order: int, euros: float, ctx: ToolCallContext) -> str:
        """Pay a customer back."""
        return await self._change(ctx, f"{euros:.2f} € paid back for order {order}")

    async def book_pickup(self, order: int, day: str) -> str:
        """Have the carrier fetch a parcel."""
        await self._pause(0.6)
        return f"pick-up booked for {day}, label sent"

    async def send_again(self, order: int, ctx: ToolCallContext) -> str:
        """Send an order once more, free of charge."""
        return await self._change(ctx, f"order {order} sent again, arrives on Friday")

    async def verify(self, ctx: ToolCallContext) -> str | bool:
        """What a call that was cut short would have returned; `False` if it never happened."""
        entry = self._books.find(ctx.idempotency_key)
        if entry is None:
            return False
        self._hooks.on_found(ctx.tool_name, entry)
        return entry.what

    async def _change(self, ctx: ToolCallContext, what: str) -> str:
        await self._pause(0.4)
        self._books.enter(ctx.idempotency_key, what)
        await self._hooks.on_done(ctx.tool_name, EffectRecord(ctx.idempotency_key, what))
        await self._pause(0.3)
        return what

    async def _record_fact(self, tool: str, source: str, fact: str, cents: int) -> ToolOutput:
        await self._pause(LOOKUPS[tool])
        found = Finding(source, fact, cents)
        return ToolOutput(ToolResult.success(tool, fact), Command().update(CASE, found))

    async def _pause(self, seconds: float) -> None:
        await self._clock.sleep(seconds * self._speed)


class EffectHooks(msgspec.Struct, frozen=True):
    """Callbacks around a call with a side effect.

    `on_done` is called, with the tool's name, when the side effect has happened and the call has
    not ended: the worst moment for a crash. `on_found` is called when a later process finds the
    side effect in the books.
    """

    on_done: Callable[[str, EffectRecord], Awaitable[None]]
    on_found: Callable[[str, EffectRecord], None]


# -- the books --------------------------------------------------------------------------------


class EffectRecord(msgspec.Struct, frozen=True):
    """A side effect, and its idempotency key."""

    key: str
    what: str


class EffectFile:
    """The books of a bank or a carrier: a file with a line for each side effect."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def enter(self, key: str, what: str) -> None:
        """Carry out a side effect: once this returns, it has happened."""
        line = dumps(EffectRecord(key, what)) + b"\n"
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)

    def entries(self) -> list[EffectRecord]:
        """All entries, in order."""
        if not self._path.exists():
            return []
        return [loads(line, EffectRecord) for line in self._path.read_bytes().splitlines()]

    def find(self, key: str) -> EffectRecord | None:
        """The entry with that key, or `None`."""
        return next((entry for entry in self.entries() if entry.key == key), None)


# -- the words --------------------------------------------------------------------------------

WORD_PAUSE = 0.035
Line = tuple[str, Mapping[str, Json]]
"""The text of an answer, and its calls: tool names and arguments."""


class Storyteller:
    """A model whose answers are a function of the tools' results so far."""

    name = "story"

    def __init__(
        self, line: Callable[[Mapping[str, str]], Line], speed: float, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._line, self._speed, self._clock = line, speed, clock

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        words, calls = self._line(collect_tool_results(request.messages))
        for word in re.findall(r"\S+\s*", words):
            await self._clock.sleep(WORD_PAUSE * self._speed)
            yield TextDelta(delta=word)
        for name, arguments in calls.items():
            yield ToolCallStart(id=f"call_{name}", name=name)
            yield ToolCallDelta(id=f"call_{name}", args_delta=dumps_text(arguments))
        read = sum(len(message.text()) for message in request.messages)
        yield Usage(
            usage=TokenUsage(
                prompt_tokens=read // 4, completion_tokens=len(words + dumps_text(calls)) // 4
            )
        )
        yield Stop(reason=StopReason.TOOL_USE if calls else StopReason.END_TURN)


def support(results: Mapping[str, str]) -> Line:
    """The first agent's next answer, given the results of the tools."""
    if not results.keys() >= LOOKUPS.keys():
        return (
            "Oh no! Let me look at the order, the parcel and our rules, all at once.",
            {
                "find_order": {"number": 1042},
                "track_parcel": {"order": 1042},
                "read_policy": {"topic": "broken goods"},
            },
        )
    if "refund" not in results:
        return (
            "The mug is paid for, the box was dented, and our rules are on your side. "
            "Money only leaves the shop once a person has agreed, so I ask for that now.",
            {"refund": {"order": 1042, "euros": 24.0}},
        )
    if _is_refund_denied(results):
        words = "The refund was not approved, so let us find another way. Shipping takes over."
    else:
        words = "Your money is on its way. Shipping takes over and fetches the pieces."
    return words, {"handoff": {"agent": "shipping"}}


def shipping(results: Mapping[str, str]) -> Line:
    """The second agent's next answer; it has read the whole conversation."""
    if _is_refund_denied(results):
        if "send_again" not in results:
            return "Hello, shipping here. I send you a new mug.", {"send_again": {"order": 1042}}
        return f"All set: {results['send_again']}. Keep the pieces, they make a fine mosaic.", {}
    if "book_pickup" not in results:
        return (
            "Hello, shipping here. I have the broken mug collected.",
            {"book_pickup": {"order": 1042, "day": "Thursday"}},
        )
    return f"All set: {results['refund']}; {results['book_pickup']}. Sorry for the trouble!", {}


def _is_refund_denied(results: Mapping[str, str]) -> bool:
    return "paid back" not in results.get("refund", "")


def collect_tool_results(messages: Sequence[Message]) -> dict[str, str]:
    """The result of each tool, by name."""
    names = {call.id: call.name for message in messages for call in message.tool_calls or ()}
    return {
        names.get(message.tool_call_id or "", ""): message.text()
        for message in messages
        if message.role is Role.TOOL
    }


# -- the agent that counts --------------------------------------------------------------------

STOCK_PROMPT = "Please count what is on the shelves."
SHELVES = 60
_SECONDS = 0.9


def stock_agent(speed: float) -> Agent:
    """The agent, ready to run; `speed` 1 is for watching."""

    async def count_shelf(shelf: int) -> str:
        """Count what is on a shelf."""
        await SYSTEM_CLOCK.sleep(_SECONDS * speed)
        return f"shelf {shelf} holds {shelf * 7 % 40 + 3} mugs"

    return Agent(
        "stock",
        model=Storyteller(stock, speed),
        tools=[tool(count_shelf, effect="read")],
        max_rounds=SHELVES + 1,
    )


def stock(results: Mapping[str, str]) -> Line:
    """The next answer, given the result of the last count: one shelf after the other."""
    found = re.match(r"shelf (\d+)", results.get("count_shelf", ""))
    counted = int(found[1]) if found else 0
    if counted >= SHELVES:
        return f"All {SHELVES} shelves are counted.", {}
    words = f"Shelf {counted + 1} is next." if counted else "I begin with the first shelf."
    return words, {"count_shelf": {"shelf": counted + 1}}
