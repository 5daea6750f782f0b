"""06 §2.2: events say what clients need to show a run, and to answer it."""

from __future__ import annotations

from typing import Any

from awaken import (
    Agent,
    Block,
    Command,
    PhaseContext,
    Registrar,
    Runtime,
    StateKey,
    ToolCallResume,
    tool,
)
from awaken.codec import Json
from awaken.core.event import (
    CollectingSink,
    RunFinish,
    RunStart,
    StateDelta,
    StateSnapshot,
    StepStart,
    ToolCallDone,
)
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import Phase, StartCause
from awaken.core.suspension import ToolCallOutcome
from awaken.core.tool import ToolKind
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, text_response, tool_call_response

T = "t"
PLAN: StateKey[list[str], list[str]] = StateKey("plan", initial=list[str], public=True)
SECRET: StateKey[str, str] = StateKey("secret", initial=str)


@tool(effect="read")
async def search_notes(word: str) -> str:
    """Looks for a word."""
    return f"found {word}"


@tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pays."""
    return f"paid {euros}"


class Keeper:
    """A plugin that writes a public and a private key in each step."""

    id = "keeper"

    def register(self, registrar: Registrar) -> None:
        registrar.key(PLAN)
        registrar.key(SECRET)
        registrar.hook(Phase.STEP_START, self._write)

    async def _write(self, ctx: PhaseContext) -> Command:
        command = Command()
        plan = ctx.snapshot.get(PLAN) or []
        command.update(PLAN, [*plan, f"step {len(plan) + 1}"])
        command.update(SECRET, "hunter2")
        return command


async def test_a_start_says_why_and_a_finish_says_what_is_asked() -> None:
    model = ScriptedModel([tool_call_response("", "pay", "c1", {"euros": 5}), "done"])
    sink = CollectingSink()
    async with Runtime([Agent("a", model=model, tools=[pay])], store=MemoryStore()) as runtime:
        asked = await runtime.run("a", "pay", thread=T, sink=sink)
        (ticket,) = asked.tickets
        await runtime.run(thread=T, answers={ticket.answered_by: ToolCallResume.approve(by="ann")})
        told = [event.event async for event in runtime.events(T, follow=False)]

    causes = [event.cause for event in told if isinstance(event, RunStart)]
    assert causes == [StartCause.NEW, StartCause.ANSWERED]
    paused, ended = [event for event in told if isinstance(event, RunFinish)]
    assert paused.tickets == tuple(asked.tickets)
    assert ended.tickets == ()
    (waits,) = [e for e in told if isinstance(e, ToolCallDone)]
    assert waits.outcome is ToolCallOutcome.SUSPENDED
    assert (waits.ticket_key, waits.digest) == (ticket.key, ticket.digest)


async def test_a_finish_says_what_the_run_has_taken() -> None:
    usage = TokenUsage(prompt_tokens=10, completion_tokens=3)
    model = ScriptedModel([text_response("hi", usage)])
    async with Runtime([Agent("a", model=model)], store=MemoryStore()) as runtime:
        await runtime.run("a", "hi", thread=T)
        told = [event.event async for event in runtime.events(T, follow=False)]

    (ended,) = [event for event in told if isinstance(event, RunFinish)]
    assert ended.steps == 1
    assert ended.usage is not None
    assert (ended.usage.prompt_tokens, ended.usage.completion_tokens) == (10, 3)
    assert [e.agent_id for e in told if isinstance(e, StepStart)] == ["a"]


async def test_a_call_says_its_kind_when_it_began_and_that_a_gate_refused_it() -> None:
    class Guard:
        id = "guard"

        def register(self, registrar: Registrar) -> None:
            registrar.gate(self._look)

        async def _look(self, ctx: PhaseContext) -> Any:
            return Block(reason="not today") if ctx.tool_name == "pay" else None

    @tool(effect="once")
    async def pay(euros: int) -> str:
        """Pays."""
        return "paid"

    model = ScriptedModel(
        [
            tool_call_response("", "search_notes", "c1", {"word": "x"}),
            tool_call_response("", "pay", "c2", {"euros": 1}),
        ]
    )
    agent = Agent("a", model=model, tools=[search_notes, pay], plugins=[Guard()])
    async with Runtime([agent], store=MemoryStore()) as runtime:
        await runtime.run("a", "go", thread=T)
        told = [event.event async for event in runtime.events(T, follow=False)]

    found, refused = [event for event in told if isinstance(event, ToolCallDone)]
    assert found.kind is ToolKind.SEARCH
    assert found.started_at_ms is not None
    assert refused.outcome is ToolCallOutcome.DENIED
    assert refused.started_at_ms is None


async def test_only_public_keys_are_told_and_deltas_make_the_next_snapshot() -> None:
    """06/SV-15."""
    model = ScriptedModel([tool_call_response("", "search_notes", "c1", {"word": "x"}), "done"])
    agent = Agent("a", model=model, tools=[search_notes], plugins=[Keeper()])
    sink = CollectingSink()
    async with Runtime([agent], store=MemoryStore()) as runtime:
        await runtime.run("a", "go", thread=T, sink=sink)

    told = [e.event for e in sink.events() if isinstance(e.event, StateDelta | StateSnapshot)]
    first, delta, second = told
    assert isinstance(first, StateSnapshot)
    assert isinstance(delta, StateDelta)
    assert isinstance(second, StateSnapshot)
    assert first.snapshot["extensions"] == {"plan": ["step 1"]}
    assert _patched(first.snapshot, delta.delta) == second.snapshot
    assert second.snapshot["extensions"] == {"plan": ["step 1", "step 2"]}


def _patched(document: Any, patch: list[Json]) -> Any:
    """RFC 6902, as far as our patches go."""
    made = {**document, "extensions": dict(document["extensions"])}
    for change in patch:
        *parents, name = [
            p.replace("~1", "/").replace("~0", "~") for p in change["path"].split("/")
        ]
        place = made
        for parent in parents[1:]:
            place = place[parent]
        if change["op"] == "remove":
            del place[name]
        else:
            place[name] = change["value"]
    return made
