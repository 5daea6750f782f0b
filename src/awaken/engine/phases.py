"""Running the phases of a run: hooks first, then scheduled actions, then effects.

The hooks of a phase are called in parallel, and all see the same frozen snapshot. Commands that
write different keys, or only share commutative ones, go into one commit. If two hooks write the
same exclusive key, the first one wins and the other hook is called again afterwards; so a hook must
allow being called twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

import msgspec

from awaken.core.aio.cancel import is_cancellation
from awaken.core.lifecycle import Phase
from awaken.core.state.command import (
    Command,
    FailedAction,
    MutationBatch,
    QueuedAction,
    TypedEffect,
    merge_parallel,
)
from awaken.core.state.key import Merge
from awaken.core.state.run_keys import (
    FAILED_ACTIONS,
    PENDING_ACTIONS,
    PushAction,
    RemoveAction,
)
from awaken.core.state.snapshot import Snapshot
from awaken.core.state.store import StateStore
from awaken.errors import (
    Cancelled,
    HookFailed,
    PhaseRunLoopExceeded,
    RevisionConflict,
    StateError,
    UnknownEffectHandler,
    UnknownScheduledActionHandler,
    describe,
)
from awaken.plugin.context import PhaseContext
from awaken.plugin.env import ExecutionEnv
from awaken.plugin.registrar import HookEntry

log = logging.getLogger("awaken.phase")

DEFAULT_MAX_ROUNDS = 16
_NO_PHASES: frozenset[Phase] = frozenset()


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
                await ask_and_submit(hooks, ctx, self.store, submit, seed)
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
        return await collect_commands(env.hooks[ctx.phase], ctx, self.store)

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
        submit: Submit,
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
        self, env: ExecutionEnv, ctx: PhaseContext, item: QueuedAction, submit: Submit
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
            if is_cancellation(error):
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
                if is_cancellation(error):
                    raise
                counts.failed += 1
                log.exception("effect %r failed", effect.key)


class EffectCounts(msgspec.Struct, kw_only=True):
    """How many effects of a phase were tried, how many succeeded and how many failed."""

    attempted: int = 0
    dispatched: int = 0
    failed: int = 0


class PhaseReport(msgspec.Struct, kw_only=True):
    """The counts of a phase's rounds, actions and effects. Without actions it has one round."""

    phase: Phase
    rounds: int = 1
    processed: int = 0
    skipped: int = 0
    failed: int = 0
    generated_effects: int = 0
    effects: EffectCounts = msgspec.field(default_factory=EffectCounts)


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


# -- calling hooks ----------------------------------------------------------------------------


ATTEMPTS = 8
"""How often hooks are called because other code keeps writing the same exclusive key."""

Submit = Callable[[Command], None]


async def ask_and_submit(
    hooks: Sequence[HookEntry],
    ctx: PhaseContext,
    store: StateStore,
    submit: Submit,
    seed: Command | None = None,
) -> None:
    """Call the hooks and submit their commands, after `seed`.

    Raises:
        StateError: a hook failed, or other code wrote the same keys `ATTEMPTS` times; what was
            submitted stays.
    """
    for attempt in range(ATTEMPTS):
        if ctx.snapshot is not store.snapshot():
            ctx = ctx.at(store.snapshot())
        busy = hooks if len(hooks) == 1 and hooks[0].when is None else _busy(hooks, ctx)
        answers = [await ask(busy[0], ctx)] if len(busy) == 1 else await ask_all(busy, ctx)
        batch, deferred = _split(busy, answers, store, seed)
        try:
            if batch:
                submit(batch)
        except RevisionConflict:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        for hook in deferred:
            await _again(hook, ctx, store, submit)
        return


async def collect_commands(
    hooks: Sequence[HookEntry], ctx: PhaseContext, store: StateStore
) -> Command:
    """The commands of the hooks as one, not committed.

    Raises:
        ParallelMergeConflict: two hooks write the same exclusive key.
    """
    answers = await ask_all(hooks, ctx) if hooks else []
    return merge_parallel([c for c in answers if c], store.merge_strategy)


async def ask_all(hooks: Sequence[HookEntry], ctx: PhaseContext) -> list[Command | None]:
    """The commands of all hooks in registration order; raises the first error in that order."""
    if not hooks:
        return []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask_hook(hook, ctx)) for hook in hooks]
    answers = [task.result() for task in tasks]
    for answer in answers:
        if isinstance(answer, StateError):
            raise answer
    return [answer for answer in answers if not isinstance(answer, StateError)]


async def ask(hook: HookEntry, ctx: PhaseContext) -> Command | None:
    """The command of one hook, with the revision of the context's snapshot.

    Raises:
        HookFailed: the hook raised, or returned something else.
    """
    try:
        command: Command | None = await hook.call(ctx)
    except StateError:
        raise
    except BaseException as error:
        if is_cancellation(error):
            raise
        raise HookFailed(hook.plugin_id, ctx.phase, error) from error
    if not command:
        return None
    if not isinstance(command, Command):
        why = TypeError(f"a hook returns a Command or None, not {type(command).__name__}")
        raise HookFailed(hook.plugin_id, ctx.phase, why)
    if command.batch.base_revision is None:
        # A copy, because a hook may return the same command object every time.
        return Command(ctx.snapshot.revision).extend(command)
    return command


async def _ask_hook(hook: HookEntry, ctx: PhaseContext) -> Command | StateError | None:
    # The error is returned, not raised, so that all hooks run to their end.
    try:
        return await ask(hook, ctx)
    except StateError as error:
        return error


def _busy(hooks: Sequence[HookEntry], ctx: PhaseContext) -> Sequence[HookEntry]:
    """The hooks that have work to do, as their guards say.

    Raises:
        HookFailed: a guard raised.
    """
    return [hook for hook in hooks if hook.when is None or _has_work(hook, ctx)]


def _has_work(hook: HookEntry, ctx: PhaseContext) -> bool:
    try:
        return hook.when is None or hook.when(ctx.snapshot)
    except StateError:
        raise
    except BaseException as error:
        raise HookFailed(hook.plugin_id, ctx.phase, error) from error


def _split(
    hooks: Sequence[HookEntry],
    answers: Sequence[Command | None],
    store: StateStore,
    seed: Command | None,
) -> tuple[Command, list[HookEntry]]:
    """The commands that do not conflict, joined, and the hooks to call again after them."""
    if seed is None and len(answers) == 1:
        return answers[0] or Command(), []
    joined = Command()
    taken: set[str] = set()
    deferred: list[HookEntry] = []
    if seed:
        joined.extend(seed)
        taken.update(seed.batch.touched_keys)
    for hook, command in zip(hooks, answers, strict=True):
        if command is None:
            continue
        touched = set(command.batch.touched_keys)
        if any(store.merge_strategy(name) is Merge.EXCLUSIVE for name in touched & taken):
            deferred.append(hook)
        else:
            joined.actions.extend(command.actions)
            joined.effects.extend(command.effects)
            joined.batch.ops.extend(command.batch.ops)
            joined.batch.base_revision = joined.batch.base_revision or command.batch.base_revision
            taken |= touched
    return joined, deferred


async def _again(hook: HookEntry, ctx: PhaseContext, store: StateStore, submit: Submit) -> None:
    for attempt in range(ATTEMPTS):
        command = await ask(hook, ctx.at(store.snapshot()))
        if command is None:
            return
        try:
            return submit(command)
        except RevisionConflict:
            if attempt == ATTEMPTS - 1:
                raise
