"""What tools say they do to the world, and what follows from it (design §4, 02 §8.12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from answer_kit import by_id
from awaken import Agent, Runtime, ToolCallContext, ToolOutput, ToolResult, tool
from awaken.codec import Json
from awaken.core.store.commits import CallPhase, Committed, ThreadCommit
from awaken.core.tool import Recover, ToolDescriptor, ToolEffect
from awaken.core.tool_context import Tool, ToolTraits, traits_of
from awaken.errors import ConfigError, StorageError, StoreError
from awaken.stores.memory import MemoryStore
from awaken.testing import EchoTool, ScriptedModel, tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio


# -- what may be said -------------------------------------------------------------------------


def verify(ctx: ToolCallContext) -> bool:
    return bool(ctx.idempotency_key)


@pytest.mark.parametrize(
    ("options", "effect", "recovery"),
    [
        ({}, ToolEffect.ONCE, Recover.REPORT),
        ({"effect": "once"}, ToolEffect.ONCE, Recover.REPORT),
        ({"effect": "read"}, ToolEffect.READ, Recover.RETRY),
        ({"effect": ToolEffect.IDEMPOTENT}, ToolEffect.IDEMPOTENT, Recover.RETRY),
        ({"recover": "ask"}, ToolEffect.ONCE, Recover.ASK),
        ({"recover": Recover.RETRY}, ToolEffect.ONCE, Recover.RETRY),
        ({"effect": "read", "recover": "report"}, ToolEffect.READ, Recover.REPORT),
        ({"verify": verify}, ToolEffect.ONCE, Recover.VERIFY),
        ({"verify": verify, "recover": "verify"}, ToolEffect.ONCE, Recover.VERIFY),
    ],
)
def test_a_tool_says_what_it_does(
    options: dict[str, Any], effect: ToolEffect, recovery: Recover
) -> None:
    """Design §4: `once` and `report` if nothing is said; who can verify does so."""

    @tool(**options)
    def act() -> str:
        """Act."""
        return "acted"

    traits = traits_of(act)
    assert (traits.effect, traits.recovery) == (effect, recovery)


def test_a_tool_that_says_nothing_must_run_once() -> None:
    """Design §4: nobody knows better of a tool of somebody else's making."""
    assert traits_of(EchoTool()).effect is ToolEffect.ONCE
    assert traits_of(EchoTool()).recovery is Recover.REPORT


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"effect": "write"}, r"'act': effect is one of 'read', 'idempotent', 'once', not 'write'"),
        ({"recover": "hope"}, r"'act': recover is one of 'retry', 'verify', .* not 'hope'"),
        ({"recover": "verify"}, r"'act': recover='verify' and verify=.* belong together"),
        ({"recover": "ask", "verify": verify}, r"'act': recover='verify' and verify=.* together"),
        ({"approval_expires_in": 0}, r"'act': approval_expires_in 0 is not above 0 seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], text: str) -> None:
    """Bad input: the tool, the option and the remedy are named before anything runs."""

    def act() -> str:
        """Act."""
        return "acted"

    with pytest.raises(ConfigError, match=text):
        tool(act, **options)


class Parcel:
    """A tool of somebody else's making, which can find out what became of a parcel."""

    def __init__(self, store: MemoryStore, *, can_verify: bool) -> None:
        self._store = store
        self.traits = ToolTraits(recover=Recover.VERIFY)
        self.asked: list[str] = []
        self.sent = 0
        if can_verify:
            self.verify = self._verify

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(id="parcel", name="parcel", description="Send a parcel.")

    def validate_args(self, args: Json) -> Json:
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        self.sent += 1
        self._store.forsake()  # the last that is heard of this process
        return ToolOutput(ToolResult.success("parcel", "sent"))

    async def _verify(self, ctx: ToolCallContext) -> str:
        self.asked.append(ctx.idempotency_key)
        return "delivered"


@pytest.mark.parametrize("can_verify", [True, False])
async def test_a_tool_of_ones_own_verifies_as_well(
    can_verify: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Design §4: by its `traits` and its method `verify`; without one nobody knows."""
    store = MemoryStore()
    parcel = Parcel(store, can_verify=can_verify)
    model = ScriptedModel([tool_call_response("", "parcel", "c1", {}), "done"])
    runtime = Runtime([Agent("a", model=model, tools=[parcel])], store=store)
    with pytest.raises(StorageError):
        await runtime.run("a", "go", thread="t")

    (run,) = await runtime.recover()

    assert (await run).response == "done"
    (answer,) = [m.text() for m in model.requests[1].messages if m.tool_call_id]
    assert parcel.sent == 1
    if can_verify:
        assert answer == "delivered"
        assert len(parcel.asked) == 1
    else:
        assert "unknown whether 'parcel' took effect" in answer
        assert "no method verify" in caplog.text


# -- what is on disk when it starts -----------------------------------------------------------


class Patient(MemoryStore):
    """A store that takes its time for the commit with the first intents.

    `before` is awaited before that commit counts; `order` is what happened, in order.
    """

    immediate = False

    def __init__(self, before: asyncio.Event | None = None, *, fails: bool = False) -> None:
        super().__init__()
        self.before, self.fails = before, fails
        self.order: list[str] = []

    async def commit(self, commit: ThreadCommit) -> Committed:
        await asyncio.sleep(0)
        intents = [e for e in commit.calls if e.phase is CallPhase.INTENT]
        if intents and "kept" not in self.order:
            if self.before is not None:
                await self.before.wait()
            if self.fails:
                raise StoreError("disk full")
            self.order.append("kept")
        return await super().commit(commit)


class Shop:
    """Three tools, one of each effect, that note when they start."""

    def __init__(self, store: Patient) -> None:
        self._store = store
        self.intents: dict[str, bool] = {}
        self.started = {effect.value: asyncio.Event() for effect in ToolEffect}
        self.tools: list[Tool] = []
        for effect in ToolEffect:
            self.tools.append(self._tool(effect))

    def _tool(self, effect: ToolEffect) -> Tool:
        @tool(name=effect.value, effect=effect)
        async def act(ctx: ToolCallContext) -> str:
            """Act."""
            self._store.order.append(effect.value)
            self.started[effect.value].set()
            calls = await self._store.load_calls(ctx.run_identity.run_id)
            self.intents[effect.value] = any(e.key == ctx.idempotency_key for e in calls)
            return "acted"

        return act

    async def run(self, *names: str) -> None:
        calls: list[tuple[str, str, Json]] = [
            (name, f"c{index}", {}) for index, name in enumerate(names)
        ]
        model = ScriptedModel([tool_calls_response("", *calls), "done"])
        agent = Agent("a", model=model, tools=self.tools)
        async with asyncio.timeout(100):
            await Runtime([agent], store=self._store).run("a", "go", thread="t")


async def test_what_only_reads_starts_while_its_intent_is_written() -> None:
    """Design §4: nothing is lost by it; the commit here waits for the very call."""
    started = asyncio.Event()
    store = Patient(started)
    shop = Shop(store)
    shop.started["read"] = started

    await shop.run("read")

    assert store.order == ["read", "kept"]


@pytest.mark.parametrize("effect", ["once", "idempotent"])
async def test_what_does_something_starts_after_its_intent_is_on_disk(effect: str) -> None:
    """02 §8.12: write-ahead. Design §4 lets idempotent calls start earlier; their key would be lost
    with the commit, and another call would have another one."""
    store = Patient()
    shop = Shop(store)

    await shop.run(effect)

    assert store.order == ["kept", effect]
    assert shop.intents == {effect: True}


async def test_side_by_side_only_what_must_wait_waits() -> None:
    """Design §4: one commit for the intents of all; those that may start do not wait for it."""
    started = asyncio.Event()
    store = Patient(started)
    shop = Shop(store)
    shop.started["read"] = started

    await shop.run("once", "read", "idempotent", "once")

    order = store.order
    assert sorted(order) == ["idempotent", "kept", "once", "once", "read"]
    assert order.index("read") < order.index("kept")
    assert order.index("kept") < min(order.index("once"), order.index("idempotent"))
    assert shop.intents["once"] is True


@pytest.mark.parametrize("company", [False, True], ids=["alone", "together"])
async def test_what_must_run_once_does_not_run_without_its_intent(company: bool) -> None:
    """02 §8.12: the store failed, so nothing was promised, and nothing is done."""
    store = Patient(fails=True)
    shop = Shop(store)

    with pytest.raises(StorageError, match="disk full"):
        await shop.run(*(["read", "once"] if company else ["once"]))

    assert "once" not in store.order
    assert [m.role.value for m in await store.load_messages("t")] == ["user"]


# -- keys -------------------------------------------------------------------------------------


async def test_every_call_has_a_key_of_its_own() -> None:
    """Design §8: ids of calls repeat from turn to turn, and in one; keys do not."""
    keys: list[str] = []

    @tool
    async def act(ctx: ToolCallContext) -> str:
        """Act."""
        keys.append(ctx.idempotency_key)
        return "acted"

    same = tool_calls_response("", ("act", "c", {}), ("act", "c", {}))
    model = ScriptedModel([same, same, "done"])
    runtime = Runtime([Agent("a", model=model, tools=[act])])

    await runtime.run("a", "go", thread="t")

    assert len(set(keys)) == len(keys) == 4
    assert all(keys)


async def test_a_call_that_only_asks_leaves_no_intent() -> None:
    """02 §8.12: asking changes nothing; the intent comes with the approval."""

    class Watched(MemoryStore):
        async def commit(self, commit: ThreadCommit) -> Committed:
            seen.append(tuple(entry.phase.value for entry in commit.calls))
            return await super().commit(commit)

    @tool(needs_approval=True)
    async def act() -> str:
        """Act."""
        return "acted"

    seen: list[tuple[str, ...]] = []
    model = ScriptedModel([tool_call_response("", "act", "c1", {}), "done"])
    runtime = Runtime([Agent("a", model=model, tools=[act])], store=Watched())

    await runtime.run("a", "go", thread="t")
    await runtime.run(thread="t", answers=await by_id(runtime, {"c1": True}))

    assert [phases for phases in seen if phases] == [("suspended",), ("intent",), ("succeeded",)]
