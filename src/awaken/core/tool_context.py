"""The Protocol of a tool, its traits, and the context it runs in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, Protocol

import msgspec

from awaken.codec import Json, to_json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.deps import RunDeps, value_of
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    RunEvent,
    ToolCallStreamDelta,
)
from awaken.core.identity import RunIdentity
from awaken.core.profile import ProfileAccess
from awaken.core.spec import AgentSpec
from awaken.core.state.command import Command
from awaken.core.state.key import StateKey
from awaken.core.state.snapshot import Snapshot
from awaken.core.suspension import Asker, ToolCallResume
from awaken.core.tool import (
    PROGRESS_ACTIVITY,
    ProgressStatus,
    Recover,
    ToolCallProgress,
    ToolDescriptor,
    ToolEffect,
)
from awaken.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from awaken.core.account import Account
    from awaken.core.backend import DurableDelegates

    D = TypeVar("D", default=Any)
else:
    from typing import TypeVar

    D = TypeVar("D")

V = TypeVar("V")
S = TypeVar("S")

ActivityEmitter = Callable[[AgentEvent], Awaitable[None]]
EventForwarder = Callable[[RunEvent], Awaitable[None]]
Services = Mapping[type, object]
_NO_SERVICES: Services = {}


class ToolOutput(msgspec.Struct, frozen=True):
    """A tool's result (a `ToolResult` or any JSON-able value) and the state changes it asks for."""

    result: Any
    command: Command | None = None


class ToolCallContext(msgspec.Struct, Generic[D], kw_only=True):
    """The context of a tool call. Without a sink, the reporting methods do nothing.

    - `forward` passes on events of runs that the tool starts.
    - `services` are the objects that the agent's plugins offer to tools.
    - `delegates` runs other agents as durable runs.
    - `asker` is the run that this call started and whose question it has passed on.
    - `budget` is the account of the run; `depth` counts its ancestors.
    - `deps` are the dependencies of the run; write `RunContext[Deps]` to have them typed.
    - `in_background` means that the call has ended for its run, so it cannot change the state.
    """

    call_id: str
    tool_name: str
    run_identity: RunIdentity
    agent_spec: AgentSpec
    snapshot: Snapshot
    idempotency_key: str = ""
    arguments: Json = None
    activity_sink: ActivityEmitter | None = None
    cancellation_token: CancellationToken | None = None
    resume_input: ToolCallResume | None = None
    suspension_id: str | None = None
    suspension_reason: str | None = None
    profile_access: ProfileAccess | None = None
    forward: EventForwarder | None = None
    services: Services = _NO_SERVICES
    delegates: DurableDelegates | None = None
    asker: Asker | None = None
    budget: Account | None = None
    depth: int = 0
    in_background: bool = False
    run_deps: RunDeps | None = None

    @property
    def deps(self) -> D:
        """The dependencies that the run was given.

        Raises:
            ConfigError: the agent has none.
        """
        value: D = value_of(self.run_deps, self.agent_spec.id)
        return value

    def service(self, kind: type[S]) -> S:
        """The service of that class that a plugin of the agent offers.

        Raises:
            ConfigError: no plugin offers it.
        """
        found = self.services.get(kind)
        if not isinstance(found, kind):
            offered = ", ".join(sorted(offer.__name__ for offer in self.services)) or "none"
            raise ConfigError(
                f"tool {self.tool_name!r} wants a {kind.__name__}, which no plugin of agent "
                f"{self.agent_spec.id!r} offers (offered: {offered}): add the plugin that does"
            )
        return found

    def state(self, key: StateKey[V, Any]) -> V | None:
        """The value of `key` when the call began, or `None` if it was never written."""
        return self.snapshot.get(key)

    async def report_activity(self, activity_type: str, text: str) -> None:
        """Report the current activity of the tool; replaces the report before."""
        if self.activity_sink is not None:
            await self.activity_sink(
                ActivitySnapshot(
                    message_id=self.call_id,
                    activity_type=activity_type,
                    content=text,
                    replace=True,
                )
            )

    async def report_activity_delta(self, activity_type: str, patch: Json) -> None:
        """Report a change of the activity, as a JSON patch."""
        if self.activity_sink is not None:
            await self.activity_sink(
                ActivityDelta(
                    message_id=self.call_id,
                    activity_type=activity_type,
                    patch=patch if isinstance(patch, list) else [patch],
                )
            )

    async def report_progress(
        self,
        status: ProgressStatus = ProgressStatus.RUNNING,
        message: str | None = None,
        progress: float | None = None,
    ) -> None:
        """Report how far the tool is, from 0 to 1.

        Raises:
            TypeError: `status` is not a `ProgressStatus`.
        """
        given: Any = status
        if not isinstance(given, ProgressStatus):
            raise TypeError(
                f"{status!r} is not a ProgressStatus: write "
                "report_progress(message=…, progress=0.5)"
            )
        if self.activity_sink is not None:
            report = ToolCallProgress.of(
                self.call_id,
                self.tool_name,
                status,
                self.run_identity,
                message=message,
                progress=progress,
            )
            await self.activity_sink(
                ActivitySnapshot(
                    message_id=self.call_id,
                    activity_type=PROGRESS_ACTIVITY,
                    content=to_json(report),
                    replace=True,
                )
            )

    async def stream_output(self, delta: str) -> None:
        """Stream a part of the tool's output to clients."""
        if self.activity_sink is not None:
            await self.activity_sink(
                ToolCallStreamDelta(id=self.call_id, name=self.tool_name, delta=delta)
            )


RunContext = ToolCallContext
"""The context of a tool call, as a tool with dependencies names it: `ctx: RunContext[Deps]`."""

CURRENT_CALL: ContextVar[ToolCallContext | None] = ContextVar("awaken_tool_call", default=None)
"""The tool call that the running code belongs to; tasks that a tool starts inherit it."""


class Tool(Protocol):
    """A tool that a model may call."""

    def descriptor(self) -> ToolDescriptor: ...

    def validate_args(self, args: Json) -> Json:
        """Check the arguments, and return them as `execute` takes them.

        Raises:
            ToolError: the arguments are invalid; the model reads the text.
        """
        ...

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput: ...


class SupportsApproval(Protocol):
    """A tool whose calls may first ask for approval."""

    def only_asks(self, args: Json, decision: ToolCallResume | None) -> bool:
        """Whether the call, with the decision it has so far, will only ask and have no effect."""
        ...


class ToolTraits(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool is run, and what happens to a call that a crash left without an outcome.

    `recover` is that choice. By default a call of a tool that must run once is reported to the
    model, and a call of any other tool is run again. A tool with `Recover.VERIFY` has an async
    method `verify(ctx)` that returns `True` (it happened), `False` (it did not: run it), `None`
    (unknown: report it), or the result of the call.
    A tool is `stoppable` if cancelling a call ends its work, and not only the wait for it.
    `retries` is how often in a run the model may try again after a `Retry` or invalid arguments.
    After that its error text says to go on without the tool, or the run stops if
    `stops_exhausted`.
    """

    sequential: bool = False
    timeout: float | None = None
    effect: ToolEffect = ToolEffect.ONCE
    recover: Recover | None = None
    stoppable: bool = True
    retries: int = 2
    stops_exhausted: bool = False

    @property
    def recovery(self) -> Recover:
        if self.recover is not None:
            return self.recover
        return Recover.REPORT if self.effect is ToolEffect.ONCE else Recover.RETRY


def only_asks(tool: Tool | None, args: Json, decision: ToolCallResume | None) -> bool:
    """Whether a call of the tool will only ask for approval; see `SupportsApproval`."""
    asks: Callable[[Json, ToolCallResume | None], bool] | None = getattr(tool, "only_asks", None)
    return asks is not None and asks(args, decision)


def traits_of(tool: Tool) -> ToolTraits:
    """The traits a tool declares, or the defaults."""
    traits: ToolTraits = getattr(tool, "traits", _PLAIN)
    return traits


_PLAIN = ToolTraits()
