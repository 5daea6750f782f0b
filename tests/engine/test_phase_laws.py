"""Random hooks, conflicts and actions against a model that runs one thing after another.

The order the engine documents: the seed; then, in registration order, the hooks whose exclusive
keys nobody before them took; then the others, in registration order; then the actions, round by
round in the order they were queued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from phase_kit import Bench, Piece, hooks

from awaken.core.lifecycle import Phase
from awaken.core.state.command import Command, EffectSpec, ScheduledActionSpec
from awaken.core.state.key import Merge, StateKey
from awaken.core.state.run_keys import PENDING_ACTIONS
from awaken.core.state.snapshot import Snapshot
from awaken.engine.phases import PhaseReport
from awaken.errors import HookFailed
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar

quick = settings(max_examples=150, deadline=None)

Key = StateKey[int, int]
EXCLUSIVE: tuple[Key, ...] = tuple(StateKey(f"e{n}", initial=int) for n in range(3))
SHARED: tuple[Key, ...] = tuple(
    StateKey(f"s{n}", initial=int, apply=int.__add__, merge=Merge.COMMUTATIVE) for n in range(2)
)
TOLD: EffectSpec[str] = EffectSpec("told", str)
PHASES = (Phase.STEP_START, Phase.BEFORE_INFERENCE, Phase.AFTER_TOOL_EXECUTE)


class Work(msgspec.Struct, frozen=True):
    """What a hook, a seed or an action wants. `fails` is only heard of hooks and actions."""

    takes: tuple[int, ...] = ()
    adds: tuple[tuple[int, int], ...] = ()
    tells: str = ""
    schedules: tuple[Work, ...] = ()
    fails: bool = False
    waits: int = 0


def turn(old: int, place: int) -> int:
    """What a writer makes of an exclusive value: no two orders give the same."""
    return old * 7 + place + 1


SIMPLE = {
    "takes": st.lists(st.integers(0, 2), max_size=2, unique=True).map(tuple),
    "adds": st.lists(st.tuples(st.integers(0, 1), st.integers(-5, 5)), max_size=2).map(tuple),
    "tells": st.sampled_from(["", "a", "b", "c"]),
    "waits": st.integers(0, 2),
}
LEAF = st.builds(Work, **SIMPLE, fails=st.integers(0, 4).map(lambda n: n == 0))
ACTION = st.builds(
    Work,
    **SIMPLE,
    schedules=st.lists(LEAF, max_size=1).map(tuple),
    fails=st.integers(0, 4).map(lambda n: n == 0),
)
CALM = st.builds(Work, **SIMPLE, schedules=st.lists(ACTION, max_size=2).map(tuple))
STORMY = st.builds(
    Work,
    **SIMPLE,
    schedules=st.lists(ACTION, max_size=1).map(tuple),
    fails=st.booleans(),
)
SEED = st.none() | CALM


# -- the engine's side ------------------------------------------------------------------------


def act(phase: Phase) -> ScheduledActionSpec[Work]:
    return ScheduledActionSpec("act", phase, Work)


def command_of(work: Work, snapshot: Snapshot, phase: Phase) -> Command:
    command = Command()
    for place in work.takes:
        key = EXCLUSIVE[place]
        command.update(key, turn(snapshot.get(key) or 0, place))
    for place, amount in work.adds:
        command.update(SHARED[place], amount)
    if work.tells:
        command.emit(TOLD, work.tells)
    for child in work.schedules:
        command.schedule_action(act(phase), child)
    return command


class Engine:
    """The real thing: one plugin a hook, and one that handles actions and effects."""

    def __init__(self, phase: Phase, works: Sequence[Work]) -> None:
        self.phase = phase
        self.told: list[str] = []
        self.bench = Bench(
            Piece("rest", self._register), *hooks(*map(self._hook, enumerate(works)), phase=phase)
        )
        self.bench.env.bind(self.bench.store, None)

    def _register(self, registrar: Registrar) -> None:
        for key in (*EXCLUSIVE, *SHARED):
            registrar.key(key)
        registrar.action(act(self.phase), self._act)
        registrar.effect(TOLD, self._tell)

    def _hook(self, numbered: tuple[int, Work]) -> tuple[str, Any]:
        number, work = numbered

        async def hook(ctx: PhaseContext) -> Command:
            return await self._work(work, ctx)

        return str(number), hook

    async def _act(self, ctx: PhaseContext, work: Work) -> Command:
        return await self._work(work, ctx)

    async def _work(self, work: Work, ctx: PhaseContext) -> Command:
        for _ in range(work.waits):
            await asyncio.sleep(0)
        if work.fails:
            raise ValueError("meant to fail")
        return command_of(work, ctx.snapshot, self.phase)

    async def _tell(self, word: str, _: Snapshot) -> None:
        self.told.append(word)

    def run(self, seed: Work | None) -> PhaseReport:
        command = None
        if seed is not None:
            command = command_of(seed, self.bench.store.snapshot(), self.phase)
        return asyncio.run(self.bench.run(self.phase, seed=command))

    def values(self) -> dict[str, int | None]:
        return {key.name: self.bench.store.read(key) for key in (*EXCLUSIVE, *SHARED)}


# -- the model's side -------------------------------------------------------------------------


class Model:
    """Plain dictionaries, one thing after another."""

    def __init__(self) -> None:
        self.values: dict[str, int | None] = {key.name: None for key in (*EXCLUSIVE, *SHARED)}
        self.told: list[str] = []
        self.processed = self.failed = 0
        self._queue: list[Work] = []

    def run(self, works: Sequence[Work], seed: Work | None) -> None:
        together: list[Work] = [seed] if seed is not None else []
        deferred: list[Work] = []
        taken = set(seed.takes) if seed is not None else set()
        for work in works:
            if taken & set(work.takes):
                deferred.append(work)
            else:
                taken |= set(work.takes)
                together.append(work)
        for work in (*together, *deferred):
            self._do(work)
        while self._queue:
            now, self._queue = self._queue, []
            for work in now:
                if work.fails:
                    self.failed += 1
                else:
                    self.processed += 1
                    self._do(work)

    def _do(self, work: Work) -> None:
        for place in work.takes:
            name = EXCLUSIVE[place].name
            self.values[name] = turn(self.values[name] or 0, place)
        for place, amount in work.adds:
            name = SHARED[place].name
            self.values[name] = (self.values[name] or 0) + amount
        if work.tells:
            self.told.append(work.tells)
        self._queue.extend(work.schedules)


# -- the laws ---------------------------------------------------------------------------------


@given(st.sampled_from(PHASES), st.lists(CALM, max_size=5), SEED)
@quick
def test_a_phase_ends_as_if_its_hooks_had_run_one_after_another(
    phase: Phase, works: list[Work], seed: Work | None
) -> None:
    """01/P-2 to P-5, P-8, P-11, P-12, D-5: state, effects and counts, in the documented order."""
    engine, model = Engine(phase, works), Model()

    report = engine.run(seed)
    model.run(works, seed)

    assert engine.values() == model.values
    assert engine.told == model.told
    assert (report.processed, report.failed) == (model.processed, model.failed)
    assert report.generated_effects == report.effects.dispatched == len(model.told)
    assert not engine.bench.store.read(PENDING_ACTIONS)


@given(st.sampled_from(PHASES), st.lists(CALM, min_size=1, max_size=3), SEED)
@quick
def test_a_second_phase_goes_on_from_where_the_first_ended(
    phase: Phase, works: list[Work], seed: Work | None
) -> None:
    """01/P-4: nothing is lost between phases either."""
    engine, model = Engine(phase, works), Model()

    for _ in range(2):
        engine.run(seed)
        model.run(works, seed)

    assert engine.values() == model.values
    assert engine.told == model.told


@given(
    st.sampled_from(PHASES),
    st.lists(STORMY, min_size=1, max_size=4).filter(lambda ws: any(w.fails for w in ws)),
    SEED,
)
@quick
def test_a_hook_that_raises_leaves_the_state_untouched(
    phase: Phase, works: list[Work], seed: Work | None
) -> None:
    """01 §3.3: the first failing hook is told of, nothing is committed and no effect goes out."""
    engine = Engine(phase, works)
    first = next(number for number, work in enumerate(works) if work.fails)

    with pytest.raises(HookFailed) as failed:
        engine.run(seed)

    assert failed.value.plugin == str(first)
    assert engine.bench.store.revision == 0
    assert set(engine.values().values()) == {None}
    assert engine.told == []
