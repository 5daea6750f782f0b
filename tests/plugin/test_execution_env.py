"""All plugins together: filtered, ordered, bound and activated (01 §4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from plugin_kit import Piece

from awaken.core.inbox import InboxSender, inbox_channel
from awaken.core.lifecycle import Phase
from awaken.core.message import Message
from awaken.core.spec import AgentSpec
from awaken.core.state.command import CommitEvent, EffectSpec, MutationBatch, ScheduledActionSpec
from awaken.core.state.key import StateKey
from awaken.core.state.snapshot import Snapshot
from awaken.core.state.store import StateStore
from awaken.core.tool import ToolDescriptor
from awaken.errors import KeyAlreadyRegistered
from awaken.plugin.context import PhaseContext
from awaken.plugin.env import ExecutionEnv, install_plugin, uninstall_plugin
from awaken.plugin.registrar import Registrar
from awaken.tool import tool


class Full:
    """A plugin that brings one of everything, all named after it."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.key: StateKey[str, str] = StateKey(f"{id}.key", initial=str)

    def register(self, registrar: Registrar) -> None:
        registrar.key(self.key)
        registrar.action(ScheduledActionSpec(f"{self.id}.act", Phase.STEP_START, str), self.act)
        registrar.effect(EffectSpec(f"{self.id}.tell", str), self.tell)
        registrar.hook(Phase.STEP_START, self.hook)
        registrar.gate(self.hook)
        registrar.transform(self.transform)
        registrar.tool(tool(self.work, name=f"{self.id}_tool"))

    async def hook(self, ctx: PhaseContext) -> None:
        return None

    async def act(self, ctx: PhaseContext, payload: Any) -> None:
        return None

    async def tell(self, payload: Any, snapshot: Snapshot) -> None:
        return None

    def transform(
        self, messages: Sequence[Message], _: Sequence[ToolDescriptor]
    ) -> Sequence[Message]:
        return messages

    async def work(self) -> str:
        """Work."""
        return self.id


def behaviour(env: ExecutionEnv) -> tuple[list[str], list[str], int, list[str]]:
    return (
        [entry.plugin_id for entry in env.hooks[Phase.STEP_START]],
        [entry.plugin_id for entry in env.gates],
        len(env.transforms),
        sorted(env.tools),
    )


def structure(env: ExecutionEnv) -> tuple[list[str], list[str], list[str]]:
    return sorted(env.keys), sorted(env.actions), sorted(env.effects)


ALL_STRUCTURE = (["a.key", "b.key"], ["a.act", "b.act"], ["a.tell", "b.tell"])


@pytest.mark.parametrize(
    ("chosen", "active"), [((), ["a", "b"]), (("b",), ["b"]), (("nobody",), [])]
)
def test_a_filter_silences_behaviour_and_keeps_structure(
    chosen: tuple[str, ...], active: list[str]
) -> None:
    """01/G-1: empty keeps all; one that matches nothing leaves no behaviour."""
    env = ExecutionEnv.from_plugins([Full("a"), Full("b")], chosen)

    tools = [f"{id}_tool" for id in active]
    assert behaviour(env) == (active, active, len(active), tools)
    assert structure(env) == ALL_STRUCTURE


def test_built_in_plugins_are_exempt_from_the_filter() -> None:
    """D-19: where the reference lets a filter remove its limits, too."""
    env = ExecutionEnv.from_plugins([Full("a")], {"nobody"}, builtin=[Full("b")])

    assert behaviour(env) == (["b"], ["b"], 1, ["b_tool"])
    assert structure(env) == ALL_STRUCTURE


def test_built_in_plugins_come_last() -> None:
    """01 §4: user plugins in order, then built-ins; within a plugin, registration order."""
    env = ExecutionEnv.from_plugins([Full("c"), Full("a")], builtin=[Full("b")])

    assert [entry.plugin_id for entry in env.hooks[Phase.STEP_START]] == ["c", "a", "b"]
    assert [plugin.id for plugin in env.plugins] == ["c", "a", "b"]


def test_a_phase_nobody_hooks_into_is_empty() -> None:
    """01/P-1: and every phase can be asked for."""
    env = ExecutionEnv.from_plugins([Full("a")])

    assert [phase for phase in Phase if env.hooks[phase]] == [Phase.STEP_START]
    assert all(ExecutionEnv().hooks[phase] == () for phase in Phase)


LEFT: StateKey[bool, bool] = StateKey("left", initial=bool)
RIGHT: StateKey[bool, bool] = StateKey("right", initial=bool)


async def nothing(_: PhaseContext) -> None:
    return None


def guarded(key: StateKey[bool, bool]) -> Piece:
    return Piece(
        key.name,
        lambda r: r.hook(Phase.STEP_START, nothing, when=lambda state: state.get(key) is True),
    )


@pytest.mark.parametrize(
    ("values", "busy"),
    [({}, False), ({"left": True}, True), ({"right": True}, True), ({"left": False}, False)],
)
def test_a_phase_is_busy_if_one_of_its_guards_says_so(values: dict[str, bool], busy: bool) -> None:
    """01/P-1: an idle phase costs a look; a phase without hooks is never busy."""
    env = ExecutionEnv.from_plugins([guarded(LEFT), guarded(RIGHT)])

    assert env.is_busy(Phase.STEP_START, Snapshot(1, values)) is busy
    assert not env.is_busy(Phase.STEP_END, Snapshot(1, values))


def test_one_hook_without_a_guard_makes_its_phase_busy() -> None:
    """01/P-1: who does not say when it has something to do always has."""
    always = Piece("always", lambda r: r.hook(Phase.STEP_START, nothing))
    env = ExecutionEnv.from_plugins([guarded(LEFT), always])

    assert env.is_busy(Phase.STEP_START, Snapshot(0, {}))


# -- life -------------------------------------------------------------------------------------


class Binding:
    """Keeps what it is bound to, and what it was asked to write."""

    def __init__(self, id: str, key: StateKey[str, str]) -> None:
        self.id = id
        self.key = key
        self.bound: list[tuple[StateStore, InboxSender | None]] = []

    def register(self, registrar: Registrar) -> None:
        registrar.key(self.key)

    def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None:
        # Its keys are there already: writing them here must work.
        store.update(self.key, "bound")
        self.bound.append((store, owner_inbox))

    def on_activate(self, agent_spec: AgentSpec, batch: MutationBatch) -> None:
        batch.update(self.key, f"{agent_spec.id} takes over")

    def on_deactivate(self, batch: MutationBatch) -> None:
        batch.update(self.key, "over")


A: StateKey[str, str] = StateKey("a", initial=str)
B: StateKey[str, str] = StateKey("b", initial=str)


def test_binding_tells_the_store_and_the_inbox_once_each() -> None:
    """01 §4: keys first, then bind, in order."""
    plugins = [Binding("a", A), Binding("b", B)]
    store, (sender, _) = StateStore(), inbox_channel()

    ExecutionEnv.from_plugins(plugins).bind(store, sender)

    assert [plugin.bound for plugin in plugins] == [[(store, sender)]] * 2
    assert (store.read(A), store.read(B)) == ("bound", "bound")


def test_activation_is_one_commit_and_so_is_deactivation() -> None:
    """01 §4: `on_activate` for all, in order, one commit."""
    env = ExecutionEnv.from_plugins([Binding("a", A), Binding("b", B)])
    store = StateStore()
    env.bind(store, None)
    commits: list[CommitEvent] = []
    store.add_commit_hook(commits.append)
    spec = AgentSpec(id="planner", model_id="m", system_prompt="")

    env.activate(store, spec)
    assert (store.read(A), store.read(B)) == ("planner takes over",) * 2
    env.deactivate(store)

    assert (store.read(A), store.read(B)) == ("over", "over")
    assert [commit.op_count for commit in commits] == [2, 2]


def test_a_different_key_of_a_taken_name_cannot_be_bound() -> None:
    """D-27: the store has a key of that name already; nothing is registered."""
    store = StateStore()
    other: StateKey[str, str] = StateKey("b", initial=str)
    install_plugin(store, Piece("first", lambda r: r.key(other)))
    env = ExecutionEnv.from_plugins([Piece("second", lambda r: r.key(A), lambda r: r.key(B))])

    with pytest.raises(KeyAlreadyRegistered, match="'b'"):
        env.bind(store, None)
    assert not store.is_registered("a")


def test_installing_and_uninstalling_a_plugin_moves_its_keys() -> None:
    """01/S-9: in a store of one's own."""
    store, plugin = StateStore(), Piece("p", lambda r: r.key(A))

    install_plugin(store, plugin)
    store.update(A, "here")
    uninstall_plugin(store, plugin)
    assert not store.is_registered("a")
    install_plugin(store, plugin)

    assert store.read(A) is None


class PerRun:
    """Counts how often it was made for a run."""

    id = "per-run"

    def __init__(self, made: list[PerRun] | None = None) -> None:
        self.made = made if made is not None else []

    def for_run(self) -> PerRun:
        fresh = PerRun(self.made)
        self.made.append(fresh)
        return fresh

    def register(self, registrar: Registrar) -> None:
        return


def test_a_plugin_of_one_run_is_made_anew_for_each_env() -> None:
    """D-4: what a run keeps in a plugin is not shared, and neither is the env."""
    plugin = PerRun()

    first, second = (ExecutionEnv.from_plugins([plugin]) for _ in range(2))

    assert first.plugins == (plugin.made[0],)
    assert second.plugins == (plugin.made[1],)
    assert not first.is_shareable
    assert ExecutionEnv.from_plugins([Full("a")]).is_shareable
    assert not ExecutionEnv.from_plugins([Binding("a", A)]).is_shareable
