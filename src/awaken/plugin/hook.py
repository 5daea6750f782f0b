"""The types of hooks and handlers, and the Protocols of plugins.

A hook gets a context and returns a command; it changes nothing itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from awaken.codec import Json
from awaken.core.intercept import ToolInterceptPayload, ToolPolicyContext, ToolPolicyDecision
from awaken.core.message import Message
from awaken.core.spec import AgentSpec
from awaken.core.state.command import Command, MutationBatch
from awaken.core.state.snapshot import Snapshot
from awaken.core.tool import ToolDescriptor, ToolResult
from awaken.plugin.context import PhaseContext

if TYPE_CHECKING:
    from awaken.core.inbox import InboxSender
    from awaken.core.state.store import StateStore

PhaseHook = Callable[[PhaseContext], Awaitable[Command | None]]
"""Called in a phase, with a frozen snapshot; called again if another hook wrote a key it wants."""

HookGuard = Callable[[Snapshot], bool]
"""Whether a hook has work to do; if not, the hook is not called."""

ToolGateHook = Callable[[PhaseContext], Awaitable[ToolInterceptPayload | None]]
"""Decides about a tool call before it runs. It may be called again, so it must have no effects."""

ToolPolicyHook = Callable[[ToolPolicyContext], Awaitable[ToolPolicyDecision]]
"""A gate that sees only the tool call, not the state."""

ResultRewrite = Callable[[PhaseContext, ToolResult], Awaitable[ToolResult]]
"""Rewrites the result of a tool call before the result is logged, shown or sent."""

RequestTransform = Callable[[Sequence[Message], Sequence[ToolDescriptor]], Sequence[Message]]
"""Rewrites the messages of one request; the message log does not change."""

ActionHandler = Callable[[PhaseContext, Any], Awaitable[Command | None]]
"""Carries out a scheduled action."""

EffectHandler = Callable[[Any, Snapshot], Awaitable[None]]
"""Called with an effect, after the commit it belongs to."""


class ConfigSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A section of the agent's spec that a plugin reads, with its JSON schema."""

    key: str
    json_schema: Json
    display_name: str | None = None
    description: str | None = None


class Plugin(Protocol):
    """Adds behaviour to an agent. An agent's `plugin_ids` and hook filters use its `id`."""

    @property
    def id(self) -> str: ...

    def register(self, registrar: Any, /) -> None:
        """Register the plugin's hooks, tools, keys and so on with a `Registrar`."""
        ...


@runtime_checkable
class RunScoped(Protocol):
    """A plugin that holds data of a run: every run gets an instance of its own."""

    def for_run(self) -> Plugin: ...


@runtime_checkable
class BindsRuntimeContext(Protocol):
    """A plugin that gets the run's state store and inbox, once, before its hooks are called."""

    def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None: ...


@runtime_checkable
class SupportsActivation(Protocol):
    """A plugin that writes state when its agent becomes active, and when it is replaced."""

    def on_activate(self, agent_spec: AgentSpec, batch: MutationBatch) -> None: ...

    def on_deactivate(self, batch: MutationBatch) -> None: ...


@runtime_checkable
class SupportsClose(Protocol):
    """A plugin with tasks of its own, which end when the runtime is closed."""

    async def close(self, *, leave: bool = False) -> None:
        """End the tasks and wait; with `leave`, keep what another process can continue."""
        ...


@runtime_checkable
class Configured(Protocol):
    """A plugin that reads sections of the agent's spec."""

    def config_schemas(self) -> Sequence[ConfigSchema]: ...
