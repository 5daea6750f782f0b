"""Runs the phases of a run: hooks first, then scheduled actions, then effects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from awaken.core.aio.cancel import is_ours
from awaken.core.phase import Phase
from awaken.core.state.command import (
    Command,
    FailedAction,
    MutationBatch,
    QueuedAction,
    TypedEffect,
)
from awaken.core.state.runtime_keys import (
    FAILED_ACTIONS,
    PENDING_ACTIONS,
    PushAction,
    RemoveAction,
)
from awaken.core.state.snapshot import Snapshot
from awaken.core.state.store import StateStore
from awaken.engine import gather
from awaken.errors import (
    Cancelled,
    PhaseRunLoopExceeded,
    UnknownEffectHandler,
    UnknownScheduledActionHandler,
    describe,
)
from awaken.plugin.context import PhaseContext
from awaken.plugin.env import ExecutionEnv

DEFAULT_MAX_ROUNDS = 16
_NO_PHASES: frozenset[Phase] = frozenset()
log = logging.getLogger("awaken.phase")


class EffectCounts(msgspec.Struct, kw_only=True):
    """How many effects of a phase were tried, how many succeeded and how many failed."""

    attempted: int = 0
    dispatched: int = 0
    failed: int = 0


class PhaseReport(msgspec.Struct, kw_only=True):
    """What a phase did. A phase without actions counts one round."""

    phase: Phase
    rounds: int = 1
    processed: int = 0
    skipped: int = 0
    failed: int = 0
    generated_effects: int = 0
    effects: EffectCounts = msgspec.field(default_factory=EffectCounts)


class PhaseRuntime:
    """Runs the phases of one run. Phases never overlap; a phase's effects run after it.

    `queued_for` are the phases that have actions in the queue.
    """

    __slots__ = ("_next_action_id", "_running", "_waiting", "queued_for", "store")

    def __init__(self, store: StateStore) -> None:
        self.store = store
        self.queued_for = _NO_PHASES
        self.look_for_actions()
        self._running = False
        self._waiting: list[asyncio.Future[None]] = []
        self._next_action_id = 0

    def look_for_actions(self) -> None:
        """Check for queued actions, after a state was restored."""
        queued = self.store.read(PENDING_ACTIONS)
        self.queued_for = _phases_of(queued) if queued else _NO_PHASES

    async def run_phase(
        self,
        env: ExecutionEnv,
        ctx: PhaseContext,
        *,
        seed: Command | None = None,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
    ) -> PhaseReport:
        """Call the phase's hooks, commit `seed` and their commands, and carry out its actions.

        Raises:
            Cancelled: the run's token is cancelled; what was committed stays.
            StateError: a hook failed, a command was refused, or actions kept scheduling new ones.
        """
        _check_token(ctx)
        report = PhaseReport(phase=ctx.phase)
        effects: list[tuple[TypedEffect, Snapshot]] = []

        def submit(command: Command) -> None:
            made = self._commit(env, command)
            if made:
                report.generated_effects += len(made)
                effects.extend(made)

        if self._running:
            await self._wait_for_turn()
        self._running = True
        try:
            hooks = env.hooks[ctx.phase]
            if hooks:
                await gather.ask_and_submit(hooks, ctx, self.store, submit, seed)
            elif seed:
                submit(seed)
            _check_token(ctx)
            if self.queued_for:
                await self._execute(env, ctx, submit, report, max_rounds)
        finally:
            self._running = False
            if self._waiting:
                self._wake_next()
            if effects:
                await self._dispatch(env, effects, report.effects)
        return report

    async def _wait_for_turn(self) -> None:
        """Wait until no other phase runs. Phases never overlap; they rarely have to wait."""
        while self._running:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                elif not self._running:
                    self._wake_next()
                raise

    def _wake_next(self) -> None:
        while self._waiting:
            turn = self._waiting.pop(0)
            if not turn.done():  # the waiting phase may just have been cancelled
                turn.set_result(None)
                return

    async def collect_commands(self, env: ExecutionEnv, ctx: PhaseContext) -> Command:
        """The commands of the phase's hooks as one, not committed.

        Raises:
            ParallelMergeConflict: two hooks write the same exclusive key.
        """
        return await gather.collect_commands(env.hooks[ctx.phase], ctx, self.store)

    async def submit_command(self, env: ExecutionEnv, command: Command) -> EffectCounts:
        """Commit a command and run its effects.

        Raises:
            UnknownScheduledActionHandler, UnknownEffectHandler: nothing was changed.
            StateError: the commit was refused; nothing was changed.
        """
        counts = EffectCounts()
        await self._dispatch(env, self._commit(env, command), counts)
        return counts

    def check_command(self, env: ExecutionEnv, command: Command) -> None:
        """Raise the error that submitting the command would raise now; change nothing."""
        _check_handlers(env, command)
        self.store.check(command.batch)

    def _commit(self, env: ExecutionEnv, command: Command) -> list[tuple[TypedEffect, Snapshot]]:
        _check_handlers(env, command)
        batch = command.batch
        if command.actions:
            # A copy, because the command may be refused and submitted again.
            batch = MutationBatch(batch.base_revision).extend(batch)
        for action in command.actions:
            item = QueuedAction(id=self._new_action_id(), action=action)
            batch.ops.append((PENDING_ACTIONS, PushAction(item=item)))
        self.store.commit(batch)
        if command.actions:
            self.queued_for |= {action.phase for action in command.actions}
        if not command.effects:
            return []
        snapshot = self.store.snapshot()
        return [(effect, snapshot) for effect in command.effects]

    def _new_action_id(self) -> int:
        # The queue may have been restored, so new ids continue after the highest one in it.
        if self._next_action_id == 0:
            queued = self.store.read(PENDING_ACTIONS) or ()
            self._next_action_id = max((item.id for item in queued), default=0)
        self._next_action_id += 1
        return self._next_action_id

    async def _execute(
        self,
        env: ExecutionEnv,
        ctx: PhaseContext,
        submit: gather.Submit,
        report: PhaseReport,
        max_rounds: int,
    ) -> None:
        rounds = 0
        while True:
            rounds += 1
            queued = self.store.read(PENDING_ACTIONS)
            mine = [
                item
                for item in queued or ()
                if item.action.phase is ctx.phase and item.action.key in env.actions
            ]
            if not mine:
                break
            if rounds > max_rounds:
                raise PhaseRunLoopExceeded(ctx.phase, max_rounds)
            for item in mine:
                if await self._work_off(env, ctx, item, submit):
                    report.processed += 1
                else:
                    report.failed += 1
        report.rounds = rounds
        self.queued_for = _phases_of(queued) if queued else _NO_PHASES
        if rounds == 1:
            report.skipped = sum(item.action.phase is not ctx.phase for item in queued or ())

    async def _work_off(
        self, env: ExecutionEnv, ctx: PhaseContext, item: QueuedAction, submit: gather.Submit
    ) -> bool:
        """Carry out one action. Returns `False` if it failed; the state records the failure."""
        spec, handler = env.actions[item.action.key]
        try:
            payload = spec.decode(item.action.payload)
            command = Command()
            if answer := await handler(ctx.at(self.store.snapshot()), payload):
                command.extend(answer)
            command.update(PENDING_ACTIONS, RemoveAction(id=item.id))
            submit(command)
        except BaseException as error:
            if is_ours(error):
                raise
            why = describe(error)
            log.warning("scheduled action %r failed: %s", item.action.key, why)
            failed = FailedAction(id=item.id, action=item.action, error=why)
            submit(
                Command()
                .update(PENDING_ACTIONS, RemoveAction(id=item.id))
                .update(FAILED_ACTIONS, failed)
            )
            return False
        return True

    async def _dispatch(
        self,
        env: ExecutionEnv,
        effects: list[tuple[TypedEffect, Snapshot]],
        counts: EffectCounts,
    ) -> None:
        for effect, snapshot in effects:
            counts.attempted += 1
            spec, handler = env.effects[effect.key]
            try:
                await handler(spec.decode(effect.payload), snapshot)
                counts.dispatched += 1
            except BaseException as error:
                if is_ours(error):
                    raise
                counts.failed += 1
                log.exception("effect %r failed", effect.key)


def _phases_of(queued: Iterable[QueuedAction]) -> frozenset[Phase]:
    return frozenset(item.action.phase for item in queued)


def _check_handlers(env: ExecutionEnv, command: Command) -> None:
    if not (command.actions or command.effects):
        return
    for action in command.actions:
        if action.key not in env.actions:
            raise UnknownScheduledActionHandler(action.key)
    for effect in command.effects:
        if effect.key not in env.effects:
            raise UnknownEffectHandler(effect.key)


def _check_token(ctx: PhaseContext) -> None:
    token = ctx.cancellation_token
    if token is not None and token.is_cancelled():
        raise Cancelled
