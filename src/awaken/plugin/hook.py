"""The shapes of behaviour: context in, command out, nothing changed in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from awaken.codec import Json
from awaken.control.inbox import InboxSender
from awaken.domain.intercept import ToolInterceptPayload, ToolPolicyContext, ToolPolicyDecision
from awaken.domain.message import Message
from awaken.domain.spec import AgentSpec
from awaken.domain.tool import ToolDescriptor
from awaken.plugin.context import PhaseContext
from awaken.state.command import Command, MutationBatch
from awaken.state.snapshot import Snapshot
from awaken.state.store import StateStore

PhaseHook = Callable[[PhaseContext], Awaitable[Command | None]]
"""Sees a frozen snapshot. It may be called twice when two hooks want one exclusive key."""

HookGuard = Callable[[Snapshot], bool]
"""Whether a hook has anything to do. One that has not is not called, and a phase none of whose
hooks has is not run at all."""

ToolGateHook = Callable[[PhaseContext], Awaitable[ToolInterceptPayload | None]]
"""Looks at a call before it runs. Pure: it may be asked again."""

ToolPolicyHook = Callable[[ToolPolicyContext], Awaitable[ToolPolicyDecision]]
"""A gate that sees the call alone."""

RequestTransform = Callable[[Sequence[Message], Sequence[ToolDescriptor]], Sequence[Message]]
"""Rewrites the messages of one request; the log stays as it is."""

ActionHandler = Callable[[PhaseContext, Any], Awaitable[Command | None]]
"""Does a scheduled action's work."""

EffectHandler = Callable[[Any, Snapshot], Awaitable[None]]
"""Sees an effect, after the commit it belongs to."""


class ConfigSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A section of the agent's spec that a plugin reads, and what it must look like."""

    key: str
    json_schema: Json
    display_name: str | None = None
    description: str | None = None


class Plugin(Protocol):
    """Brings behaviour to an agent. `id` is what `plugin_ids` and hook filters name."""

    @property
    def id(self) -> str: ...

    def register(self, registrar: Any, /) -> None:
        """Tell the `Registrar` what the plugin brings."""
        ...


@runtime_checkable
class RunScoped(Protocol):
    """A plugin that keeps something of a run in itself: every run gets its own instance."""

    def for_run(self) -> Plugin: ...


@runtime_checkable
class BindsRuntimeContext(Protocol):
    """A plugin that wants to know the run's store and inbox, once, before anything else."""

    def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None: ...


@runtime_checkable
class Activates(Protocol):
    """A plugin that writes state when its agent takes over, and when another does."""

    def on_activate(self, agent_spec: AgentSpec, batch: MutationBatch) -> None: ...

    def on_deactivate(self, batch: MutationBatch) -> None: ...


@runtime_checkable
class Closes(Protocol):
    """A plugin that has work of its own under way, to be ended when the runtime is closed."""

    async def close(self, *, leave: bool = False) -> None:
        """End it and wait; with `leave`, what another process can take up is left to it."""
        ...


@runtime_checkable
class Configured(Protocol):
    """A plugin that reads sections of the agent's spec."""

    def config_schemas(self) -> Sequence[ConfigSchema]: ...
