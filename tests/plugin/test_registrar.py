"""What one plugin may bring, and what it may bring only once (01 §4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from plugin_kit import Piece

from awaken.core.intercept import Allow, ToolPolicyContext
from awaken.core.lifecycle import Phase
from awaken.core.message import Message
from awaken.core.profile import ProfileKey
from awaken.core.state.command import EffectSpec, ScheduledActionSpec
from awaken.core.state.key import Scope, StateKey, StateKeyOptions
from awaken.core.state.snapshot import Snapshot
from awaken.core.tool import ToolDescriptor
from awaken.errors import (
    ConfigError,
    EffectHandlerAlreadyRegistered,
    HandlerAlreadyRegistered,
    KeyAlreadyRegistered,
    StateError,
    ToolAlreadyRegistered,
)
from awaken.plugin.context import PhaseContext
from awaken.plugin.env import ExecutionEnv
from awaken.plugin.registrar import Registrar
from awaken.testing import EchoTool

NOTES: StateKey[str, str] = StateKey("notes", initial=str)
VISITS: ProfileKey[int] = ProfileKey("visits", initial=int)
ACT: ScheduledActionSpec[str] = ScheduledActionSpec("act", Phase.STEP_START, str)
TELL: EffectSpec[str] = EffectSpec("tell", str)


async def hook(_: PhaseContext) -> None:
    return None


async def handle(_: PhaseContext, __: str) -> None:
    return None


async def tell(_: str, __: Snapshot) -> None:
    return None


async def allow(_: ToolPolicyContext) -> Allow:
    return Allow()


def same(messages: Sequence[Message], _: Sequence[ToolDescriptor]) -> Sequence[Message]:
    return messages


Part = Callable[[Registrar], None]

ONCE: dict[str, tuple[Part, type[StateError], str]] = {
    "key": (lambda r: r.key(NOTES), KeyAlreadyRegistered, "notes"),
    "profile key": (lambda r: r.profile_key(VISITS), KeyAlreadyRegistered, "visits"),
    "action": (lambda r: r.action(ACT, handle), HandlerAlreadyRegistered, "act"),
    "effect": (lambda r: r.effect(TELL, tell), EffectHandlerAlreadyRegistered, "tell"),
    "tool": (lambda r: r.tool(EchoTool()), ToolAlreadyRegistered, "echo"),
}
OFTEN: dict[str, Part] = {
    "hook": lambda r: r.hook(Phase.STEP_START, hook),
    "gate": lambda r: r.gate(hook),
    "policy": lambda r: r.policy(allow),
    "transform": lambda r: r.transform(same),
}


@pytest.mark.parametrize("what", ONCE)
def test_one_plugin_brings_a_name_once(what: str) -> None:
    """01/G-2: the column "in one plugin"; the error names what came twice."""
    part, error, name = ONCE[what]

    with pytest.raises(error, match=f"'{name}'"):
        ExecutionEnv.from_plugins([Piece("p", part, part)])


@pytest.mark.parametrize("what", ["action", "effect", "tool"])
def test_two_plugins_may_not_bring_the_same_handler_or_tool(what: str) -> None:
    """01/G-2: the column "across plugins"."""
    part, error, name = ONCE[what]

    with pytest.raises(error, match=f"'{name}'"):
        ExecutionEnv.from_plugins([Piece("p", part), Piece("q", part)])


@pytest.mark.parametrize("what", ["key", "profile key"])
def test_two_plugins_may_share_a_key(what: str) -> None:
    """01/G-2: the same key twice is one key."""
    part, _, _ = ONCE[what]

    env = ExecutionEnv.from_plugins([Piece("p", part), Piece("q", part)])

    assert list(env.keys) == (["notes"] if what == "key" else [])
    assert env.profile_namespaces == (frozenset() if what == "key" else {"visits"})


def test_a_different_key_of_a_taken_name_is_refused() -> None:
    """D-27: where 01/G-2 lets the later one be ignored; it would be written and never kept."""
    other: StateKey[int, int] = StateKey("notes", initial=int)

    with pytest.raises(KeyAlreadyRegistered, match=r"'notes'.*pick another name"):
        ExecutionEnv.from_plugins(
            [Piece("p", lambda r: r.key(NOTES)), Piece("q", lambda r: r.key(other))]
        )


@pytest.mark.parametrize("what", OFTEN)
def test_behaviour_may_come_often(what: str) -> None:
    """01/G-2: hooks, gates, policies and transforms add up."""
    part = OFTEN[what]

    env = ExecutionEnv.from_plugins([Piece("p", part, part), Piece("q", part)])

    found: dict[str, Sequence[Any]] = {
        "hook": env.hooks[Phase.STEP_START],
        "gate": env.gates,
        "policy": env.gates,
        "transform": env.transforms,
    }
    assert len(found[what]) == 3


def test_a_hook_knows_the_plugin_it_came_from() -> None:
    """01 §4: the filter and errors speak of the plugin's id."""
    env = ExecutionEnv.from_plugins([Piece("p", OFTEN["hook"]), Piece("q", OFTEN["gate"])])

    assert [entry.plugin_id for entry in env.hooks[Phase.STEP_START]] == ["p"]
    assert [entry.plugin_id for entry in env.gates] == ["q"]


def test_a_key_keeps_its_own_scope_unless_options_say_otherwise() -> None:
    """01 §2.1, OURS: options default to the key's own."""
    kept: StateKey[str, str] = StateKey("kept", initial=str, scope=Scope.THREAD)
    env = ExecutionEnv.from_plugins(
        [
            Piece(
                "p",
                lambda r: r.key(kept),
                lambda r: r.key(NOTES, StateKeyOptions(scope=Scope.THREAD, persistent=False)),
            )
        ]
    )

    assert env.keys["kept"].scope is Scope.THREAD
    assert env.keys["kept"].persistent
    assert env.keys["notes"].scope is Scope.THREAD
    assert not env.keys["notes"].persistent


def test_a_hook_into_the_gate_is_told_to_be_a_gate() -> None:
    async def look(_: PhaseContext) -> None:
        return None

    with pytest.raises(ConfigError, match=r"hook for tool_gate: call registrar\.gate"):
        Registrar("p").hook(Phase.TOOL_GATE, look)
