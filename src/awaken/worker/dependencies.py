"""The dependencies of live runs: they come with the run, from the run above it, from before it
paused, or from a maker."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from awaken.core.deps import DepsMakers, RunDeps, RunInfo
from awaken.core.run import RunRecord
from awaken.core.store.store import Store
from awaken.errors import ConfigError
from awaken.worker.live_runs import ActiveRun
from awaken.worker.request import RunRequest

CLOSE_SECONDS = 10.0
"""How long the closing of a run's dependencies may take."""
MAX_REMEMBERED = 10_000
"""Of more runs that wait at once, the oldest lose their dependencies, and makers make new ones."""


class Dependencies:
    """Finds the dependencies of a run. Those of a run that waits are kept until it is over.

    `types` are the types of dependencies by agent, for the agents that have some.
    """

    def __init__(self, store: Store, makers: DepsMakers) -> None:
        self._store = store
        self._makers = makers
        self.types: dict[str, type] = {}
        self._kept: dict[str, RunDeps] = {}

    def check(self, agent_id: str, given: RunDeps | None) -> None:
        """
        Raises:
            ConfigError: the given dependencies are not of the agent's type.
        """
        if given is None:
            return
        needed, kind = self.types.get(agent_id), type(given.value).__name__
        if needed is None:
            raise ConfigError(
                f"agent {agent_id!r} takes no dependencies: make it Agent(…, deps={kind}), or "
                "run it without deps"
            )
        if not isinstance(given.value, needed):
            raise ConfigError(
                f"the deps of agent {agent_id!r} are a {needed.__name__}, not a {kind}"
            )

    async def find(
        self, agent_id: str, request: RunRequest, run_id: str, inherited: RunDeps | None
    ) -> RunDeps | None:
        """The dependencies of a run of an agent; `None` if the agent has none. `inherited`
        are those that its parent run passes down.

        Raises:
            ConfigError: they are of another type, or there are none and no maker for them.
        """
        self.check(agent_id, request.deps)
        needed = self.types.get(agent_id)
        if needed is None:
            return None
        for deps in (request.deps, inherited, self._kept.get(run_id)):
            if deps is not None and isinstance(deps.value, needed) and not deps.is_closed:
                break
        else:
            info = await self._info(agent_id, request, run_id)
            deps = await self._make(needed, info)
        self._kept[run_id] = deps
        if len(self._kept) > MAX_REMEMBERED:
            del self._kept[next(iter(self._kept))]
        return deps

    async def find_for_task(self, agent_id: str, run_id: str | None) -> RunDeps | None:
        """The dependencies for a background task that the run `run_id` of an agent has started."""
        needed = self.types.get(agent_id)
        if needed is None:
            return None
        kept = self._kept.get(run_id or "")
        if kept is not None and not kept.is_closed:
            return kept
        run = await self._store.load_run(run_id or "")
        if run is None:
            return None
        return await self._make(needed, await self._info_of(agent_id, run))

    def forget(self, run_id: str | None) -> None:
        """Forget the dependencies of a run that is over."""
        if run_id is not None:
            self._kept.pop(run_id, None)

    def refusal_reason(self, agent_id: str, run_id: str = "") -> str | None:
        """Why a run cannot have its dependencies here; `None` if it can."""
        needed = self.types.get(agent_id)
        if needed is None or needed in self._makers or run_id in self._kept:
            return None
        return _no_maker(agent_id, needed)

    def with_makeable_deps(self, agent_ids: Sequence[str]) -> Sequence[str]:
        """The agents among these whose runs can be resumed here."""
        if not self.types:
            return agent_ids
        return [agent_id for agent_id in agent_ids if self.refusal_reason(agent_id) is None]

    async def _make(self, needed: type, info: RunInfo) -> RunDeps:
        make = self._makers.get(needed)
        if make is None:
            raise ConfigError(_no_maker(info.agent_id, needed))
        stack = AsyncExitStack()
        try:
            value, is_opened = await _enter(stack, make(info), needed)
            if not isinstance(value, needed):
                raise ConfigError(
                    f"the maker of {needed.__name__} in Runtime(deps=…) returned a "
                    f"{type(value).__name__}: return a {needed.__name__}, or yield one in an async "
                    "generator"
                )
        except BaseException as error:
            await stack.__aexit__(type(error), error, error.__traceback__)
            raise
        if not is_opened:
            return RunDeps(value)

        async def close(error: BaseException | None) -> None:
            kind = type(error) if error is not None else None
            async with asyncio.timeout(CLOSE_SECONDS):
                await stack.__aexit__(kind, error, None)

        return RunDeps(value, close)

    async def _info(self, agent_id: str, request: RunRequest, run_id: str) -> RunInfo:
        parent = await self._store.load_run(request.parent_run_id or "")
        if parent is not None:
            return await self._info_of(agent_id, parent)
        return RunInfo(
            agent_id=agent_id,
            thread_id=request.thread_id,
            run_id=run_id,
            deps_key=request.deps_key,
            user=request.user,
            labels=request.labels,
            principal=request.principal,
        )

    async def _info_of(self, agent_id: str, run: RunRecord) -> RunInfo:
        """The facts about the run that a caller has started, from `run` or a run above it."""
        while (parent := await self._store.load_run(run.parent_run_id or "")) is not None:
            run = parent
        return RunInfo.of(agent_id, run.thread_id, run.run_id, run.request)


async def use_deps(
    slot: ActiveRun, deps: RunDeps | None, error: BaseException | None = None
) -> None:
    """Let a live run use other dependencies, or none at its end. The earlier ones are closed, if
    nothing else uses them. `error` is the error that has ended the run."""
    before, slot.deps = slot.deps, deps
    if deps is not None:
        deps.acquire()
    if before is not None and not isinstance(error, GeneratorExit):  # then nothing may be awaited
        await before.release(error)


async def _enter(stack: AsyncExitStack, made: Any, needed: type) -> tuple[Any, bool]:
    """The value of what a maker returned, and whether it has to be closed."""
    if inspect.isasyncgen(made):
        made = asynccontextmanager(lambda given=made: given)()
    if not isinstance(made, needed):
        if hasattr(made, "__aenter__"):
            return await stack.enter_async_context(made), True
        if hasattr(made, "__enter__"):
            return stack.enter_context(made), True
    return await _enter(stack, await made, needed) if inspect.isawaitable(made) else (made, False)


def _no_maker(agent_id: str, needed: type) -> str:
    name = needed.__name__
    return (
        f"agent {agent_id!r} needs its dependencies, a {name}: give run(…, deps={name}(…)), or a "
        f"way to make them again, Runtime(…, deps={{{name}: make}})"
    )
