"""Plugins in real runs: configured, bound, activated, handed over (01 §4, D-4, D-22, D-26)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from plugin_kit import Piece

from awaken import (
    Agent,
    AgentSpec,
    Command,
    Phase,
    PhaseContext,
    ProfileKey,
    Registrar,
    Runtime,
    Scope,
    StateKey,
    ToolCallContext,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.codec import Json
from awaken.core.inbox import InboxSender
from awaken.core.state.command import MutationBatch
from awaken.core.state.store import StateStore
from awaken.errors import NotFound, PhaseError
from awaken.plugin.hook import ConfigSchema
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


class Tone(msgspec.Struct, frozen=True):
    """How to speak."""

    style: str = "plain"


class ToneReader:
    """Reads its section in every run."""

    id = "tone"

    def __init__(self) -> None:
        self.seen: list[Tone] = []

    def config_schemas(self) -> Sequence[ConfigSchema]:
        schema: Json = {"type": "object", "properties": {"style": {"type": "string"}}}
        return [ConfigSchema(key="tone", json_schema=schema)]

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.RUN_START, self.read)

    async def read(self, ctx: PhaseContext) -> None:
        self.seen.append(ctx.config("tone", Tone))


def spec_of(**changes: object) -> AgentSpec:
    fields: dict[str, object] = {"id": "speaker", "model_id": "m", "system_prompt": ""}
    return AgentSpec(**(fields | changes))  # type: ignore[arg-type]  # test data by name


async def test_a_section_survives_its_plugins_absence() -> None:
    """01/G-3: kept untouched while nobody reads it, and read when the plugin is back."""
    reader = ToneReader()
    sections = {"tone": {"style": "dry"}}
    without = spec_of(sections=sections)
    runtime = Runtime([without], models={"m": ScriptedModel(["one", "two"])}, plugins=[reader])

    await runtime.run("speaker", "hello")
    assert reader.seen == []
    assert without.sections == sections

    runtime.replace([msgspec.structs.replace(without, plugin_ids=("tone",))])
    await runtime.run("speaker", "hello again")

    assert reader.seen == [Tone(style="dry")]


async def test_an_absent_section_is_the_types_default() -> None:
    """01 §4: config."""
    reader = ToneReader()
    agent = Agent("speaker", model=ScriptedModel(["one"]), plugins=[reader])

    await Runtime([agent]).run("speaker", "hello")

    assert reader.seen == [Tone()]


async def test_a_section_that_does_not_fit_its_type_is_named() -> None:
    """01 §4, bad input: `KeyDecode` says which section and where; the record is closed."""

    class Counting(msgspec.Struct):
        limit: int = 1

    async def read(ctx: PhaseContext) -> None:
        ctx.config("counting", Counting)

    agent = Agent(
        "speaker",
        model=ScriptedModel([]),
        plugins=[Piece("counter", lambda r: r.hook(Phase.RUN_START, read))],
        sections={"counting": {"limit": "many"}},
    )

    with pytest.raises(PhaseError, match=r"'counting'.*limit"):
        await Runtime([agent]).run("speaker", "hello")


# -- binding ----------------------------------------------------------------------------------


class Bound:
    """Counts how often, and to what, it is bound."""

    def __init__(self, id: str = "bound") -> None:
        self.id = id
        self.stores: list[StateStore] = []
        self.inboxes: list[InboxSender | None] = []

    def register(self, registrar: Registrar) -> None:
        return

    def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None:
        self.stores.append(store)
        self.inboxes.append(owner_inbox)


async def test_bind_is_called_once_for_a_delegated_run() -> None:
    """01/G-4, 02/B3: once for the child, once for its parent, each with its own store."""
    bound, parents = Bound(), Bound("parents")
    child = Agent("child", model=ScriptedModel(["done"]), plugins=[bound])
    model = ScriptedModel(
        [tool_call_response("", "agent_run_child", "c1", {"prompt": "go"}), "all done"]
    )
    parent = Agent("parent", model=model, delegates=[child], plugins=[parents])

    result = await Runtime([parent, child]).run("parent", "delegate")

    assert result.response == "all done"
    assert len(bound.stores) == len(parents.stores) == 1
    assert bound.stores != parents.stores
    assert bound.inboxes[0] is not None


class Notebook:
    """Keeps something of a run in itself, and says so."""

    id = "notebook"

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.of_runs: list[Notebook] = []

    def for_run(self) -> Notebook:
        fresh = Notebook()
        self.of_runs.append(fresh)
        return fresh

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.RUN_START, self.note)
        registrar.hook(Phase.RUN_END, self.note)

    async def note(self, ctx: PhaseContext) -> None:
        self.notes.append(ctx.run_identity.thread_id)


async def test_runs_at_once_do_not_share_a_plugin_that_keeps_things() -> None:
    """D-4: a plugin of one run is made for each of them."""
    notebook = Notebook()
    runtime = Runtime([Agent("a", model=ScriptedModel(["x"] * 4), plugins=[notebook])])

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(runtime.run("a", "hi", thread=f"t{number}"))

    used = sorted(book.notes for book in notebook.of_runs if book.notes)
    assert used == [[f"t{number}"] * 2 for number in range(4)]
    assert notebook.notes == []


# -- activation and thread state --------------------------------------------------------------

MOOD: StateKey[str, str] = StateKey("mood", initial=str, scope=Scope.THREAD)
TURNS: StateKey[int, int] = StateKey("turns", initial=int)


class Moody:
    """Sees what is there when a run starts, then writes both scopes."""

    id = "moody"

    def __init__(self) -> None:
        self.seen: list[tuple[str | None, int | None]] = []

    def register(self, registrar: Registrar) -> None:
        registrar.key(MOOD)
        registrar.key(TURNS)
        registrar.hook(Phase.RUN_START, self.look)

    def on_activate(self, agent_spec: AgentSpec, batch: MutationBatch) -> None:
        batch.update(TURNS, 1)

    def on_deactivate(self, batch: MutationBatch) -> None:
        raise AssertionError("nothing is deactivated at the end of a run")

    async def look(self, ctx: PhaseContext) -> Command:
        mood = ctx.read(MOOD)
        self.seen.append((mood, ctx.read(TURNS)))
        return Command().update(MOOD, (mood or "") + "!").update(TURNS, 5)


async def test_thread_state_is_there_when_run_start_hooks_run() -> None:
    """01/G-5: the thread's keys are back, the run's start anew, activation came before."""
    moody = Moody()
    runtime = Runtime([Agent("a", model=ScriptedModel(["x"] * 3), plugins=[moody])])

    for _ in range(2):
        await runtime.run("a", "hi", thread="t1")
    await runtime.run("a", "hi", thread="t2")

    assert moody.seen == [(None, 1), ("!", 1), (None, 1)]


class Owner(Bound):
    """Says who speaks: written on taking over, and on giving up."""

    def __init__(self, id: str, key: StateKey[str, str]) -> None:
        super().__init__(id)
        self.key = key
        self.asked: list[tuple[str, str | None, str | None]] = []

    def register(self, registrar: Registrar) -> None:
        registrar.key(self.key)
        registrar.hook(Phase.BEFORE_INFERENCE, self.look)

    def on_activate(self, agent_spec: AgentSpec, batch: MutationBatch) -> None:
        batch.update(self.key, f"on for {agent_spec.id}")

    def on_deactivate(self, batch: MutationBatch) -> None:
        batch.update(self.key, "off")

    async def look(self, ctx: PhaseContext) -> None:
        self.asked.append((ctx.agent_spec.id, ctx.read(FIRST), ctx.read(SECOND)))


FIRST: StateKey[str, str] = StateKey("first", initial=str)
SECOND: StateKey[str, str] = StateKey("second", initial=str)


async def test_a_handoff_binds_and_activates_the_new_agents_plugins() -> None:
    """D-22: keys, bind, the old ones' `on_deactivate`, the new ones' `on_activate`, in one run."""
    first, second = Owner("first-plugin", FIRST), Owner("second-plugin", SECOND)
    script = [tool_call_response("", "handoff", "h1", {"agent": "second"})]
    runtime = Runtime(
        [
            Agent("first", model=ScriptedModel(script), plugins=[first], handoffs=["second"]),
            Agent("second", model=ScriptedModel(["here I am"]), plugins=[second]),
        ]
    )

    result = await runtime.run("first", "somebody else, please")

    assert result.response == "here I am"
    assert len(first.stores) == len(second.stores) == 1
    assert first.stores == second.stores
    assert first.inboxes == second.inboxes
    assert first.asked == [("first", "on for first", None)]
    assert second.asked == [("second", "off", "on for second")]


# -- guards -----------------------------------------------------------------------------------

ALARM: StateKey[bool, bool] = StateKey("alarm", initial=bool)


async def test_a_guarded_hook_is_called_once_the_state_says_so() -> None:
    """01/P-1: spared while it has nothing to do, and not a step longer."""
    asked: list[int] = []

    @tool
    async def ring() -> ToolOutput:
        """Ring."""
        return ToolOutput(ToolResult.success("ring"), Command().update(ALARM, True))

    async def answer(ctx: PhaseContext) -> Command:
        asked.append(len(ctx.messages))
        return Command().update(ALARM, False)

    watcher = Piece(
        "watcher",
        lambda r: r.hook(Phase.STEP_START, answer, when=lambda state: state.get(ALARM) is True),
    )
    model = ScriptedModel(
        [
            tool_call_response("", "ring", "c1", {}),
            tool_call_response("", "missing", "c2", {}),
            "done",
        ]
    )
    agent = Agent("a", model=model, tools=[ring], state=[ALARM], plugins=[watcher])

    await Runtime([agent]).run("a", "go")

    assert asked == [3]


# -- profiles ---------------------------------------------------------------------------------

VISITS: ProfileKey[int] = ProfileKey("visits", initial=int)


async def test_hooks_and_tools_reach_what_outlives_threads() -> None:
    """D-26: profile access is wired into both contexts, and counts over threads."""

    async def count(ctx: PhaseContext) -> None:
        assert ctx.profile_access is not None
        await ctx.profile_access.update(VISITS, lambda n: n + 1)

    @tool
    async def visits(ctx: ToolCallContext) -> int:
        """How often anybody came."""
        assert ctx.profile_access is not None
        return await ctx.profile_access.read(VISITS)

    model = ScriptedModel([tool_call_response("", "visits", "c1", {}), "told"] * 2)
    agent = Agent(
        "host",
        model=model,
        tools=[visits],
        profile=[VISITS],
        plugins=[Piece("counter", lambda r: r.hook(Phase.RUN_START, count))],
    )
    runtime = Runtime([agent])

    for thread in ("t1", "t2"):
        await runtime.run("host", "how often?", thread=thread)

    answers = [(await runtime.messages(thread))[2].text() for thread in ("t1", "t2")]
    assert answers == ["1", "2"]


async def test_a_profile_nobody_registered_is_refused_by_name() -> None:
    """D-26, bad input: the namespace must have been registered; the tool's caller is told."""

    @tool
    async def peek(ctx: ToolCallContext) -> int:
        """Look."""
        assert ctx.profile_access is not None
        with pytest.raises(NotFound, match="'visits'"):
            await ctx.profile_access.read(VISITS)
        return 0

    model = ScriptedModel([tool_call_response("", "peek", "c1", {}), "told"])

    result = await Runtime([Agent("host", model=model, tools=[peek])]).run("host", "look")

    assert result.response == "told"
    assert model.requests[1].messages[-1].text() == "0"
