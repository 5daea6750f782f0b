"""Hooks side by side: one snapshot, one commit, and the loser of a conflict asked again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from phase_kit import LOG, TOTAL, Bench, Piece, X, Y, hooks

from awaken.core.aio.cancel import CancellationToken
from awaken.core.lifecycle import Phase
from awaken.core.state.command import Command, CommitEvent, EffectSpec
from awaken.core.state.key import StateKey
from awaken.core.state.snapshot import Snapshot
from awaken.errors import (
    Cancelled,
    HookFailed,
    ParallelMergeConflict,
    ReducerFailed,
    RevisionConflict,
    UnknownKey,
)
from awaken.plugin.context import PhaseContext

pytestmark = pytest.mark.anyio

NOTE: EffectSpec[str] = EffectSpec("note", str)


def writes(key: StateKey[Any, Any], update: Any) -> Any:
    async def hook(_: PhaseContext) -> Command:
        return Command().update(key, update)

    return hook


def adds_to(key: StateKey[int, int], amount: int, seen: list[int | None]) -> Any:
    """A hook on an exclusive key: reads it, and writes what it read plus `amount`."""

    async def hook(ctx: PhaseContext) -> Command:
        seen.append(ctx.read(key))
        return Command().update(key, (ctx.read(key) or 0) + amount)

    return hook


def commits_of(bench: Bench) -> list[CommitEvent]:
    commits: list[CommitEvent] = []
    bench.store.add_commit_hook(commits.append)
    return commits


def test_the_phases_are_nine_and_in_order() -> None:
    """01/P-1: the order of a run."""
    assert [phase.value for phase in Phase] == [
        "run_start",
        "step_start",
        "before_inference",
        "after_inference",
        "tool_gate",
        "before_tool_execute",
        "after_tool_execute",
        "step_end",
        "run_end",
    ]


@pytest.mark.parametrize("phase", Phase)
async def test_an_idle_phase_reports_zeros_and_one_round(phase: Phase) -> None:
    """01/P-1."""
    bench = Bench()

    report = await bench.run(phase)

    assert report.phase is phase
    assert report.rounds == 1
    assert (report.processed, report.skipped, report.failed, report.generated_effects) == (0,) * 4
    counts = report.effects
    assert (counts.attempted, counts.dispatched, counts.failed) == (0, 0, 0)
    assert bench.store.revision == 0


async def test_hooks_that_want_nothing_change_nothing() -> None:
    """01/P-1: no command and an empty command are the same."""

    async def none(_: PhaseContext) -> None:
        return None

    async def empty(_: PhaseContext) -> Command:
        return Command()

    bench = Bench(*hooks(("none", none), ("empty", empty)))

    assert (await bench.run()).rounds == 1
    assert bench.store.revision == 0


async def test_sibling_hooks_never_see_each_others_writes() -> None:
    """01/P-2: all of them see the snapshot from before the phase."""
    seen: list[tuple[tuple[str, ...] | None, int]] = []

    def says(word: str) -> Any:
        async def hook(ctx: PhaseContext) -> Command:
            await asyncio.sleep(0)
            seen.append((ctx.read(LOG), ctx.snapshot.revision))
            return Command().update(LOG, word)

        return hook

    bench = Bench(*hooks(("a", says("a")), ("b", says("b")), ("c", says("c"))))
    bench.store.update(LOG, "before")

    await bench.run()

    assert seen == [(("before",), 1)] * 3
    assert bench.store.read(LOG) == ("before", "a", "b", "c")


async def test_hooks_run_side_by_side() -> None:
    """01/P-2: the first waits for the second, which therefore must have been started."""
    second_ran = asyncio.Event()

    async def first(_: PhaseContext) -> None:
        await second_ran.wait()

    async def second(_: PhaseContext) -> None:
        second_ran.set()

    await Bench(*hooks(("first", first), ("second", second))).run()


async def test_disjoint_and_commutative_writes_are_one_commit() -> None:
    """01/P-3: and updates of a shared key apply in registration order, whoever ends first."""

    async def slow(ctx: PhaseContext) -> Command:
        for _ in range(5):
            await asyncio.sleep(0)
        return Command().update(LOG, "slow").update(X, 1)

    bench = Bench(
        *hooks(("slow", slow), ("quick", writes(LOG, "quick")), ("total", writes(TOTAL, 4)))
    )
    commits = commits_of(bench)

    await bench.run()

    assert [commit.op_count for commit in commits] == [4]
    assert bench.store.read(LOG) == ("slow", "quick")
    assert (bench.store.read(X), bench.store.read(TOTAL)) == (1, 4)


async def test_two_hooks_on_one_exclusive_key_both_count() -> None:
    """01/P-4: the second is asked again, sees what the first wrote, and both effects go out."""
    seen: list[int | None] = []
    noted: list[str] = []

    def step(amount: int) -> Any:
        add = adds_to(X, amount, seen)

        async def hook(ctx: PhaseContext) -> Command:
            command: Command = await add(ctx)
            return command.emit(NOTE, str(amount))

        return hook

    async def note(text: str, _: Snapshot) -> None:
        noted.append(text)

    bench = Bench(
        *hooks(("ten", step(10)), ("twenty", step(20))),
        Piece("notes", lambda r: r.effect(NOTE, note)),
    )
    commits = commits_of(bench)

    report = await bench.run()

    assert bench.store.read(X) == 30
    assert seen == [None, None, 10]
    assert len(commits) == 2
    assert noted == ["10", "20"]
    assert report.generated_effects == 2
    assert (report.effects.attempted, report.effects.dispatched) == (2, 2)


async def test_an_independent_hook_rides_in_the_first_batch() -> None:
    """01/P-5: of three hooks two conflict; the third does not wait for the settling."""
    seen: list[int | None] = []
    bench = Bench(
        *hooks(
            ("first", adds_to(X, 1, seen)),
            ("second", adds_to(X, 2, seen)),
            ("other", writes(Y, 7)),
        )
    )
    commits = commits_of(bench)

    await bench.run()

    assert [commit.snapshot.get(Y) for commit in commits] == [7, 7]
    assert [commit.snapshot.get(X) for commit in commits] == [1, 3]
    assert seen == [None, None, 1]


async def test_a_hook_that_no_longer_wants_anything_when_asked_again_is_left_out() -> None:
    """01/P-4: the second answer is the one that counts."""

    async def only_if_unset(ctx: PhaseContext) -> Command | None:
        return Command().update(X, 9) if ctx.read(X) is None else None

    bench = Bench(*hooks(("first", writes(X, 1)), ("second", only_if_unset)))

    await bench.run()

    assert bench.store.read(X) == 1
    assert bench.store.revision == 1


async def test_collecting_refuses_a_conflict_and_commits_nothing() -> None:
    """01/P-6."""
    bench = Bench(*hooks(("one", writes(X, 1)), ("two", writes(X, 2))))

    with pytest.raises(ParallelMergeConflict, match="'x'") as conflict:
        await bench.phases.collect_commands(bench.env, bench.context(Phase.STEP_START))

    assert conflict.value.key == "x"
    assert bench.store.revision == 0


async def test_collecting_joins_what_fits_and_commits_nothing() -> None:
    """01/P-6: one command, in registration order, made from the snapshot's revision."""
    bench = Bench(*hooks(("one", writes(X, 1)), ("two", writes(Y, 2))))

    command = await bench.phases.collect_commands(bench.env, bench.context(Phase.STEP_START))

    assert command.batch.touched_keys == ["x", "y"]
    assert command.batch.base_revision == 0
    assert bench.store.revision == 0


# -- cancelling -------------------------------------------------------------------------------


async def test_a_cancelled_token_stops_a_phase_before_it_begins() -> None:
    """01/P-13: no hook runs."""
    asked: list[str] = []

    async def hook(_: PhaseContext) -> None:
        asked.append("asked")

    token = CancellationToken()
    token.cancel()

    with pytest.raises(Cancelled):
        await Bench(*hooks(("hook", hook))).run(token=token)
    assert asked == []


async def test_what_was_gathered_stays_when_the_token_is_cancelled_meanwhile() -> None:
    """01/P-13: committed stays committed, and its effects are told."""
    token = CancellationToken()
    told: list[str] = []

    async def hook(_: PhaseContext) -> Command:
        token.cancel()
        return Command().update(X, 1).emit(NOTE, "written")

    async def note(text: str, snapshot: Snapshot) -> None:
        told.append(f"{text}: {snapshot.value(X)}")

    bench = Bench(*hooks(("hook", hook)), Piece("notes", lambda r: r.effect(NOTE, note)))

    with pytest.raises(Cancelled):
        await bench.run(token=token)
    assert bench.store.read(X) == 1
    assert told == ["written: 1"]


# -- failing ----------------------------------------------------------------------------------


async def test_a_hook_that_raises_fails_the_phase_and_nothing_is_written() -> None:
    """01/P-3, bad input: the error names plugin and phase; what the others want is dropped."""
    ended: list[str] = []

    async def breaks(_: PhaseContext) -> Command:
        raise ValueError("no such luck")

    async def fine(_: PhaseContext) -> Command:
        await asyncio.sleep(0)
        ended.append("fine")
        return Command().update(X, 1)

    bench = Bench(*hooks(("breaks", breaks), ("fine", fine)))

    with pytest.raises(HookFailed, match=r"'breaks'.*no such luck.*'step_start'") as failed:
        await bench.run()

    assert (failed.value.plugin, failed.value.phase) == ("breaks", Phase.STEP_START)
    assert isinstance(failed.value.__cause__, ValueError)
    assert ended == ["fine"]
    assert bench.store.revision == 0


@pytest.mark.parametrize("company", [0, 1])
async def test_a_hook_that_awaited_something_cancelled_has_failed(company: int) -> None:
    """Bad input: nobody cancelled the run, so this is an error of the plugin like any other."""

    async def awaits(_: PhaseContext) -> None:
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gone.cancel()
        await gone

    bench = Bench(*hooks(("awaits", awaits), *[("fine", writes(X, 1))] * company))

    with pytest.raises(HookFailed, match=r"'awaits'.*CancelledError"):
        await bench.run()
    assert bench.store.revision == 0


async def test_a_phase_whose_task_is_cancelled_ends_so() -> None:
    """01/P-13: a real cancel passes through, and the next phase can run."""
    inside = asyncio.Event()
    for company in (0, 1):
        inside.clear()

        async def waits(_: PhaseContext) -> None:
            inside.set()
            await asyncio.Event().wait()

        bench = Bench(*hooks(("waits", waits), *[("fine", writes(X, 1))] * company))
        task = asyncio.ensure_future(bench.run())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert bench.store.revision == 0
        async with asyncio.timeout(100):
            await bench.run(Phase.STEP_END)


async def test_of_two_failing_hooks_the_first_registered_is_told() -> None:
    """01 §3.3: the first error in registration order, not in time."""

    async def late(ctx: PhaseContext) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        raise ValueError("late")

    async def early(_: PhaseContext) -> None:
        raise ValueError("early")

    with pytest.raises(HookFailed, match="late"):
        await Bench(*hooks(("late", late), ("early", early))).run()


@pytest.mark.parametrize("company", [0, 1])
async def test_a_hook_that_answers_with_something_else_is_named(company: int) -> None:
    """Bad input: alone or among others, the plugin is named and told what a hook returns."""

    async def odd(_: PhaseContext) -> Any:
        return {"x": 1}

    bench = Bench(*hooks(("odd", odd), *[("fine", writes(Y, 1))] * company))

    with pytest.raises(HookFailed, match=r"'odd'.*Command or None.*dict"):
        await bench.run()
    assert bench.store.revision == 0


async def test_a_reducer_that_raises_leaves_the_state_as_it_was() -> None:
    """D-7, bad input: nothing of the batch is applied, and the key is named."""

    def refuse(_: int, __: int) -> int:
        raise ZeroDivisionError("reducer")

    broken: StateKey[int, int] = StateKey("broken", initial=int, apply=refuse)
    bench = Bench(
        *hooks(("fine", writes(X, 1)), ("bad", writes(broken, 1))),
        Piece("keys", lambda r: r.key(broken)),
    )
    bench.env.bind(bench.store, None)

    with pytest.raises(ReducerFailed, match=r"'broken'.*nothing was changed"):
        await bench.run()
    assert bench.store.read(X) is None
    assert bench.store.revision == 0


async def test_a_key_nobody_registered_is_refused_by_name() -> None:
    """Bad input: the hint says where to register it."""
    stray: StateKey[int, int] = StateKey("stray", initial=int)
    bench = Bench(*hooks(("hook", writes(stray, 1))))

    with pytest.raises(UnknownKey, match=r"'stray'.*register it in a plugin"):
        await bench.run()
    assert bench.store.revision == 0


# -- outside writers --------------------------------------------------------------------------


@pytest.mark.parametrize("with_seed", [False, True])
async def test_a_commit_from_outside_does_not_end_the_phase(with_seed: bool) -> None:
    """D-2: somebody writes the hook's exclusive key meanwhile; the hook is asked again."""
    bench: Bench
    asked: list[int | None] = []

    async def hook(ctx: PhaseContext) -> Command:
        asked.append(ctx.read(X))
        if len(asked) == 1:
            bench.store.update(X, 100)
        return Command().update(X, (ctx.read(X) or 0) + 1).emit(NOTE, "done")

    async def note(_: str, __: Snapshot) -> None:
        return

    bench = Bench(*hooks(("hook", hook)), Piece("notes", lambda r: r.effect(NOTE, note)))
    seed = Command().update(LOG, "seed") if with_seed else None

    report = await bench.run(seed=seed)

    assert asked == [None, 100]
    assert bench.store.read(X) == 101
    assert bench.store.read(LOG) == (("seed",) if with_seed else None)
    assert (report.generated_effects, report.effects.dispatched) == (1, 1)


async def test_a_commit_from_outside_to_another_key_disturbs_nobody() -> None:
    """D-2: conflicts are found per exclusive key, never per store."""
    bench: Bench
    asked = 0

    async def hook(_: PhaseContext) -> Command:
        nonlocal asked
        asked += 1
        bench.store.update(Y, 1)
        bench.store.update(TOTAL, 1)
        return Command().update(X, 1).update(TOTAL, 1)

    bench = Bench(*hooks(("hook", hook)))

    await bench.run()

    assert asked == 1
    assert (bench.store.read(X), bench.store.read(Y), bench.store.read(TOTAL)) == (1, 1, 2)


async def test_a_deferred_hook_too_is_asked_again_after_an_outside_commit() -> None:
    """D-2: the same patience for those that wait their turn."""
    bench: Bench
    asked: list[int | None] = []

    async def second(ctx: PhaseContext) -> Command:
        asked.append(ctx.read(X))
        if len(asked) == 2:
            bench.store.update(X, 50)
        return Command().update(X, (ctx.read(X) or 0) + 1)

    bench = Bench(*hooks(("first", writes(X, 10)), ("second", second)))

    await bench.run()

    assert asked == [None, 10, 50]
    assert bench.store.read(X) == 51


async def test_an_outside_writer_that_always_wins_ends_the_phase_in_the_end() -> None:
    """D-2: asked again a few times, not for ever; the error names the key and the next move."""
    bench: Bench
    asked = 0

    async def hook(ctx: PhaseContext) -> Command:
        nonlocal asked
        asked += 1
        bench.store.update(X, -asked)
        return Command().update(X, 1)

    bench = Bench(*hooks(("hook", hook)))

    with pytest.raises(RevisionConflict, match=r"'x'.*new snapshot"):
        await bench.run()
    assert 2 < asked < 20
    assert bench.store.read(X) == -asked


# -- commands as constants --------------------------------------------------------------------


async def test_a_hook_may_answer_with_the_same_command_every_time() -> None:
    """01 §3.3: commands are read, not written; a constant means the same in every phase."""
    constant = Command().update(X, 5).update(LOG, "said")

    async def hook(_: PhaseContext) -> Command:
        return constant

    bench = Bench(*hooks(("hook", hook)))
    for _ in range(3):
        await bench.run()
        bench.store.update(X, 0)

    assert bench.store.read(LOG) == ("said",) * 3
    assert constant.batch.touched_keys == ["x", "log"]


# -- one path for all phases ------------------------------------------------------------------


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.TOOL_GATE])
async def test_every_phase_settles_conflicts_the_same_way(phase: Phase) -> None:
    """D-5: fallback for conflicts in all nine phases, behind a seed or not."""
    seen: list[int | None] = []
    entries = (("one", adds_to(X, 1, seen)), ("two", adds_to(X, 2, seen)))
    bench = Bench(*hooks(*entries, phase=phase))

    await bench.run(phase, seed=Command().update(Y, 3))

    assert (bench.store.read(X), bench.store.read(Y)) == (3, 3)


async def test_a_hook_that_wants_what_the_seed_wrote_sees_it_first() -> None:
    """D-5: the seed goes first; a hook on the same exclusive key is asked again behind it."""
    seen: list[int | None] = []
    bench = Bench(*hooks(("hook", adds_to(X, 1, seen))))

    await bench.run(seed=Command().update(X, 40))

    assert seen == [None, 40]
    assert bench.store.read(X) == 41


async def test_phases_of_one_run_never_overlap() -> None:
    """01 §3.3: one lock a store, held for the whole phase."""
    inside = asyncio.Event()
    go_on = asyncio.Event()
    order: list[str] = []

    async def slow(_: PhaseContext) -> None:
        order.append("slow begins")
        inside.set()
        await go_on.wait()
        order.append("slow ends")

    async def quick(_: PhaseContext) -> None:
        order.append("quick")

    bench = Bench(
        Piece("slow", lambda r: r.hook(Phase.STEP_START, slow)),
        Piece("quick", lambda r: r.hook(Phase.STEP_END, quick)),
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(bench.run(Phase.STEP_START))
        await inside.wait()
        second = group.create_task(bench.run(Phase.STEP_END))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not second.done()
        go_on.set()

    assert order == ["slow begins", "slow ends", "quick"]


async def test_a_phase_given_up_while_it_waits_leaves_its_turn_to_the_next() -> None:
    """01 §3.3: cancelled in the very moment its turn comes, it disturbs neither of the others."""
    inside, go_on = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def first(_: PhaseContext) -> None:
        inside.set()
        await go_on.wait()
        order.append("first")

    def says(word: str) -> Any:
        async def hook(_: PhaseContext) -> None:
            order.append(word)

        return hook

    second, third = says("second"), says("third")
    bench = Bench(
        Piece("first", lambda r: r.hook(Phase.STEP_START, first)),
        Piece("second", lambda r: r.hook(Phase.STEP_END, second)),
        Piece("third", lambda r: r.hook(Phase.RUN_END, third)),
    )
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(bench.run(Phase.STEP_START))
        await inside.wait()
        given_up = group.create_task(bench.run(Phase.STEP_END))
        group.create_task(bench.run(Phase.RUN_END))
        await asyncio.sleep(0)
        go_on.set()
        given_up.cancel()

    assert given_up.cancelled()
    assert order == ["first", "third"]
