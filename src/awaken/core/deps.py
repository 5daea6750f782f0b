"""Dependencies: the live objects of a run, such as a database session or the current user."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from awaken.codec import Json
from awaken.core.identity import Principal
from awaken.core.run import RunRequestSnapshot
from awaken.core.value import Value
from awaken.errors import ConfigError

log = logging.getLogger("awaken.runtime")

CloseDeps = Callable[[BaseException | None], Awaitable[None]]
"""Closes dependencies; it is given the error that has ended the run, if one has."""


class RunInfo(Value, frozen=True, kw_only=True):
    """The stored facts about a run, for functions that make its dependencies or its tools.

    `deps_key` is the JSON value that the caller gave with the run; `user`, `labels` and `principal`
    are those of the run. For the dependencies of a delegate, they are those of the root run.
    """

    agent_id: str
    thread_id: str
    run_id: str
    deps_key: Json = None
    user: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    principal: Principal | None = None

    @classmethod
    def of(
        cls, agent_id: str, thread_id: str, run_id: str, request: RunRequestSnapshot | None
    ) -> RunInfo:
        """The facts about a run, from the request in its record."""
        if request is None:
            return cls(agent_id=agent_id, thread_id=thread_id, run_id=run_id)
        extras = request.request_extras
        return cls(
            agent_id=agent_id,
            thread_id=thread_id,
            run_id=run_id,
            deps_key=extras.get("deps_key") if isinstance(extras, Mapping) else None,
            user=request.user,
            labels=request.labels,
            principal=request.principal,
        )


DepsMaker = Callable[[RunInfo], Any]
"""Makes the dependencies of a run, async or not. It may be an async generator that yields them, or
return a context manager; then they are closed after the run has used them."""
DepsMakers = Mapping[type, DepsMaker]


class RunDeps:
    """Holds the dependencies of a run. They live in this process only: a holder shows nothing of
    its value, and cannot be pickled or encoded.

    With `close`, they were opened for the run. Runs and background tasks that use them call
    `acquire` and `release`; the last `release` closes them, and they cannot be used again.
    """

    __slots__ = ("_close", "_users", "is_closed", "value")

    def __init__(self, value: Any, close: CloseDeps | None = None) -> None:
        self.value = value
        self.is_closed = False
        self._close, self._users = close, 0

    def acquire(self) -> None:
        self._users += 1

    async def release(self, error: BaseException | None = None) -> None:
        """Close the dependencies if no other run or task uses them. `error` has ended the run.

        An error in closing them is logged: the run is committed already.
        """
        self._users -= 1
        if self._users > 0 or self._close is None or self.is_closed:
            return
        self.is_closed = True
        try:
            await self._close(error)
        except Exception as failure:
            if failure is not error:
                name = type(self.value).__name__
                log.exception("the dependencies of a run, a %s, could not be closed", name)

    def __repr__(self) -> str:
        return "RunDeps(…)"

    def __reduce__(self) -> Any:
        raise TypeError("dependencies stay in their process: they cannot be pickled")


class DelegateDeps:
    """A service of an agent: for each delegate by id, a function that makes the delegate's
    dependencies from the agent's own."""

    __slots__ = ("makers",)

    def __init__(self, makers: Mapping[str, Callable[[Any], Any]]) -> None:
        self.makers = makers


async def deps_below(
    services: Mapping[type, object], agent_id: str, deps: RunDeps | None
) -> RunDeps | None:
    """The dependencies that a run passes to its delegate `agent_id`."""
    service = services.get(DelegateDeps)
    make = service.makers.get(agent_id) if isinstance(service, DelegateDeps) else None
    if make is None:
        return deps
    made = make(deps.value if deps is not None else None)
    return RunDeps(await made if isinstance(made, Awaitable) else made)


def value_of(deps: RunDeps | None, agent_id: str) -> Any:
    """
    Raises:
        ConfigError: the run has no dependencies.
    """
    if deps is None:
        raise ConfigError(
            f"this run of agent {agent_id!r} has no dependencies: write Agent({agent_id!r}, "
            f"deps=Deps, …) and run({agent_id!r}, …, deps=Deps(…))"
        )
    return deps.value
