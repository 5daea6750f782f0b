"""Calling the hooks of a phase in parallel, and committing their commands.

All hooks see the same frozen snapshot. Commands that write different keys, or only share
commutative ones, go into one commit. If two hooks write the same exclusive key, the first one
wins and the other hook is called again afterwards; so a hook must allow being called twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from awaken.core.aio.cancel import is_ours
from awaken.core.state.command import Command
from awaken.core.state.key import Merge
from awaken.core.state.merge import merge_parallel
from awaken.core.state.store import StateStore
from awaken.errors import HookFailed, RevisionConflict, StateError
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import HookEntry

ATTEMPTS = 8
"""How often hooks are called because other code keeps writing the same exclusive key."""

Submit = Callable[[Command], None]


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
        if is_ours(error):
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


async def ask_all(hooks: Sequence[HookEntry], ctx: PhaseContext) -> list[Command | None]:
    """The commands of all hooks in registration order; raises the first error in that order."""
    if not hooks:
        return []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_kept(hook, ctx)) for hook in hooks]
    answers = [task.result() for task in tasks]
    for answer in answers:
        if isinstance(answer, StateError):
            raise answer
    return [answer for answer in answers if not isinstance(answer, StateError)]


async def _kept(hook: HookEntry, ctx: PhaseContext) -> Command | StateError | None:
    # The error is returned, not raised, so that all hooks run to their end.
    try:
        return await ask(hook, ctx)
    except StateError as error:
        return error


async def collect_commands(
    hooks: Sequence[HookEntry], ctx: PhaseContext, store: StateStore
) -> Command:
    """The commands of the hooks as one, not committed.

    Raises:
        ParallelMergeConflict: two hooks write the same exclusive key.
    """
    answers = await ask_all(hooks, ctx) if hooks else []
    return merge_parallel([c for c in answers if c], store.merge_strategy)


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
