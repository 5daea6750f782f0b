"""What a tool is, and what it may see while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import msgspec

from awaken.budget.account import Account
from awaken.codec import Json, to_json
from awaken.contract.backend import DurableDelegates
from awaken.contract.profile import ProfileAccess
from awaken.control.cancel import CancellationToken
from awaken.domain.event import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    RunEvent,
    ToolCallStreamDelta,
)
from awaken.domain.identity import RunIdentity
from awaken.domain.progress import PROGRESS_ACTIVITY, ProgressStatus, ToolCallProgress
from awaken.domain.recovery import Recover, ToolEffect
from awaken.domain.spec import AgentSpec
from awaken.domain.suspension import Asker, ToolCallResume
from awaken.domain.tool import ToolDescriptor
from awaken.errors import ConfigError
from awaken.state.command import Command
from awaken.state.key import StateKey
from awaken.state.snapshot import Snapshot

V = TypeVar("V")
S = TypeVar("S")

ActivityEmitter = Callable[[AgentEvent], Awaitable[None]]
EventForwarder = Callable[[RunEvent], Awaitable[None]]
Services = Mapping[type, object]
_NO_SERVICES: Services = {}


class ToolOutput(msgspec.Struct, frozen=True):
    """A tool's answer, a `ToolResult` or any JSON-able value, and the state changes with it."""

    result: Any
    command: Command | None = None


class ToolCallContext(msgspec.Struct, kw_only=True, gc=False):
    """What a running tool may see; reporting does nothing when nobody listens.

    `forward` passes on the events of runs the tool starts; `services` are what the agent's plugins
    offer to tools, `delegates` runs other agents so that they survive a crash, `asker` the run the
    call has put a question for, `budget` what the run may still use up, `depth` how many agents are
    above it. A call that goes on `in_background` is over for its run, whose state it cannot change.
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

    def service(self, kind: type[S]) -> S:
        """What a plugin of the agent offers under that class.

        Raises:
            ConfigError: no plugin does.
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
        """Say what the tool is doing, replacing what it said before."""
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
        """Say what changed, as a JSON patch."""
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
        """Say how far the tool is, from 0 to 1.

        Raises:
            TypeError: the status is none; `message` and `progress` are given by name.
        """
        given: Any = status
        if not isinstance(given, ProgressStatus):
            raise TypeError(
                f"{status!r} is no ProgressStatus: write report_progress(message=…, progress=0.5)"
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
        """Pass on a piece of the tool's own output."""
        if self.activity_sink is not None:
            await self.activity_sink(
                ToolCallStreamDelta(id=self.call_id, name=self.tool_name, delta=delta)
            )


CURRENT_CALL: ContextVar[ToolCallContext | None] = ContextVar("awaken_tool_call", default=None)
"""The call the running code belongs to; tasks a tool starts inherit it."""


class Tool(Protocol):
    """Something a model may call."""

    def descriptor(self) -> ToolDescriptor: ...

    def validate_args(self, args: Json) -> Json:
        """The arguments as `execute` wants them.

        Raises:
            ToolError: they do not fit; the model reads the text.
        """
        ...

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput: ...


class AsksFirst(Protocol):
    """A tool some of whose calls only ask whether they may run."""

    def only_asks(self, args: Json, decision: ToolCallResume | None) -> bool:
        """Whether the call, with what was decided about it so far, will do nothing but ask."""
        ...


class ToolTraits(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool wants to be run, and what to do about a call a crash left without an outcome.

    Without a `recover` of its own, a tool that must run once is reported, any other is run again.
    A tool that says `verify` has an async method `verify(ctx)` that answers `True` (it happened),
    `False` (it did not, run it), `None` (nobody can tell: report it), or what it returned.
    A tool is `stoppable` if cancelling a call ends its work, and not only the wait for it.
    """

    sequential: bool = False
    timeout: float | None = None
    effect: ToolEffect = ToolEffect.ONCE
    recover: Recover | None = None
    stoppable: bool = True

    @property
    def recovery(self) -> Recover:
        if self.recover is not None:
            return self.recover
        return Recover.REPORT if self.effect is ToolEffect.ONCE else Recover.RETRY


def only_asks(tool: Tool | None, args: Json, decision: ToolCallResume | None) -> bool:
    """Whether a call of the tool will do nothing but ask; see `AsksFirst`."""
    asks: AsksFirst | None = tool if hasattr(tool, "only_asks") else None  # type: ignore[assignment]
    return asks is not None and asks.only_asks(args, decision)


def traits_of(tool: Tool) -> ToolTraits:
    """The tool's own traits, or the defaults."""
    traits: ToolTraits = getattr(tool, "traits", _PLAIN)
    return traits


_PLAIN = ToolTraits()
