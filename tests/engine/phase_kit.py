"""Phases on their own: a store, a handful of hooks, and a context to run them in."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from awaken.core.aio.cancel import CancellationToken
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import Phase
from awaken.core.spec import AgentSpec
from awaken.core.state.command import Command
from awaken.core.state.key import Merge, StateKey
from awaken.core.state.run_keys import FAILED_ACTIONS, PENDING_ACTIONS
from awaken.core.state.store import StateStore
from awaken.engine.phases import DEFAULT_MAX_ROUNDS, PhaseReport, PhaseRuntime
from awaken.plugin.context import PhaseContext
from awaken.plugin.env import ExecutionEnv, install_plugin
from awaken.plugin.registrar import Registrar

X: StateKey[int, int] = StateKey("x", initial=int)
Y: StateKey[int, int] = StateKey("y", initial=int)
TOTAL: StateKey[int, int] = StateKey(
    "total", initial=int, apply=operator.add, merge=Merge.COMMUTATIVE
)
LOG: StateKey[tuple[str, ...], str] = StateKey(
    "log",
    initial=tuple,
    apply=lambda value, word: (*value, word),
    merge=Merge.COMMUTATIVE,
    type=tuple[str, ...],
)
KEYS: tuple[StateKey[Any, Any], ...] = (X, Y, TOTAL, LOG)


class Piece:
    """A plugin written on the spot: its id, and what it tells the registrar, part by part."""

    def __init__(self, id: str, *parts: Callable[[Registrar], None]) -> None:
        self.id = id
        self._parts = parts

    def register(self, registrar: Registrar) -> None:
        for part in self._parts:
            part(registrar)


def _keys(registrar: Registrar) -> None:
    for key in (*KEYS, PENDING_ACTIONS, FAILED_ACTIONS):
        registrar.key(key)


class Bench:
    """A store with `KEYS`, an env of the given plugins, and phases over both."""

    def __init__(self, *plugins: Piece) -> None:
        self.store = StateStore()
        install_plugin(self.store, Piece("bench", _keys))
        self.env = ExecutionEnv.from_plugins(plugins)
        self.phases = PhaseRuntime(self.store)

    def context(self, phase: Phase, token: CancellationToken | None = None) -> PhaseContext:
        return PhaseContext(
            phase=phase,
            snapshot=self.store.snapshot(),
            agent_spec=AgentSpec(id="agent", model_id="model", system_prompt=""),
            run_identity=RunIdentity(thread_id="thread", run_id="run", agent_id="agent"),
            cancellation_token=token,
        )

    async def run(
        self,
        phase: Phase = Phase.STEP_START,
        *,
        token: CancellationToken | None = None,
        seed: Command | None = None,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
    ) -> PhaseReport:
        return await self.phases.run_phase(
            self.env, self.context(phase, token), seed=seed, max_rounds=max_rounds
        )


def hooks(*entries: tuple[str, Any], phase: Phase = Phase.STEP_START) -> list[Piece]:
    """One plugin a hook, in order."""

    def piece(id: str, hook: Any) -> Piece:
        return Piece(id, lambda registrar: registrar.hook(phase, hook))

    return [piece(id, hook) for id, hook in entries]
