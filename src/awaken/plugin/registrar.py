"""The registrar: a plugin registers its hooks, tools, keys and services with it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import NoneType
from typing import Any, TypeVar, get_args

import msgspec

from awaken.core.intercept import (
    Suspend,
    ToolInterceptPayload,
    ToolPolicyDecision,
    policy_payload,
)
from awaken.core.lifecycle import Phase
from awaken.core.profile import ProfileKey
from awaken.core.state.command import EffectSpec, ScheduledActionSpec
from awaken.core.state.key import KeyRegistration, StateKey, StateKeyOptions
from awaken.core.tool import ToolResult
from awaken.core.tool_context import Tool
from awaken.errors import (
    ConfigError,
    EffectHandlerAlreadyRegistered,
    HandlerAlreadyRegistered,
    KeyAlreadyRegistered,
    ToolAlreadyRegistered,
)
from awaken.plugin.context import PhaseContext
from awaken.plugin.hook import (
    ActionHandler,
    EffectHandler,
    HookGuard,
    PhaseHook,
    RequestTransform,
    ResultRewrite,
    ToolGateHook,
    ToolPolicyHook,
)

P = TypeVar("P")
_VERDICTS = (*get_args(ToolInterceptPayload), NoneType)
_DECISIONS = get_args(ToolPolicyDecision)


class HookEntry(msgspec.Struct, frozen=True):
    """A hook, gate or transform, and the id of its plugin."""

    plugin_id: str
    call: Any
    when: HookGuard | None = None


class Registrar:
    """Collects the hooks, tools, keys and services of one plugin. Registering a name twice raises
    at once."""

    def __init__(self, plugin_id: str) -> None:
        self.plugin_id = plugin_id
        self.keys: dict[str, KeyRegistration] = {}
        self.profile_keys: dict[str, ProfileKey[Any]] = {}
        self.actions: dict[str, tuple[ScheduledActionSpec[Any], ActionHandler]] = {}
        self.effects: dict[str, tuple[EffectSpec[Any], EffectHandler]] = {}
        self.hooks: list[tuple[Phase, HookEntry]] = []
        self.gates: list[HookEntry] = []
        self.transforms: list[HookEntry] = []
        self.rewrites: list[HookEntry] = []
        self.tools: dict[str, Tool] = {}
        self.spare_tools: set[str] = set()
        self.services: dict[type, object] = {}

    def key(self, key: StateKey[Any, Any], options: StateKeyOptions | None = None) -> None:
        """Register a state key."""
        if key.name in self.keys:
            raise KeyAlreadyRegistered(key.name)
        self.keys[key.name] = KeyRegistration.of(key, options)

    def profile_key(self, key: ProfileKey[Any]) -> None:
        """Register a profile key, for values that are kept longer than threads."""
        if key.namespace in self.profile_keys:
            raise KeyAlreadyRegistered(key.namespace)
        self.profile_keys[key.namespace] = key

    def action(self, spec: ScheduledActionSpec[P], handler: ActionHandler) -> None:
        """Register the handler of a scheduled action."""
        if spec.key in self.actions:
            raise HandlerAlreadyRegistered(spec.key)
        self.actions[spec.key] = (spec, _require_async(handler))

    def effect(self, spec: EffectSpec[P], handler: EffectHandler) -> None:
        """Register the handler of an effect."""
        if spec.key in self.effects:
            raise EffectHandlerAlreadyRegistered(spec.key)
        self.effects[spec.key] = (spec, _require_async(handler))

    def hook(self, phase: Phase, hook: PhaseHook, *, when: HookGuard | None = None) -> None:
        """Register a hook for a phase; it is called only if `when`, if given, returns true.

        Raises:
            ConfigError: the phase is `tool_gate`, which takes gates and policies instead.
        """
        given: Any = phase
        if not isinstance(given, Phase):
            raise ConfigError(
                f"plugin {self.plugin_id!r} registers a hook for {phase!r}, which is not a phase: "
                "give a member of awaken.Phase"
            )
        if phase is Phase.TOOL_GATE:
            raise ConfigError(
                f"plugin {self.plugin_id!r} registers a hook for tool_gate: call registrar.gate "
                "instead"
            )
        self.hooks.append((phase, HookEntry(self.plugin_id, _require_async(hook), when)))

    def gate(self, hook: ToolGateHook) -> None:
        """Register a gate: it decides about every tool call before the call runs."""
        look = _require_async(hook)

        async def gate(ctx: PhaseContext) -> ToolInterceptPayload | None:
            # An answer of a wrong type is an error: it must not count as "no objection".
            return _check_type(await look(ctx), _VERDICTS)

        self.gates.append(HookEntry(self.plugin_id, gate))

    def policy(self, hook: ToolPolicyHook) -> None:
        """Register a policy: a gate that sees only the tool call."""
        decide = _require_async(hook)

        async def gate(ctx: PhaseContext) -> ToolInterceptPayload | None:
            verdict = policy_payload(_check_type(await decide(ctx.policy_context()), _DECISIONS))
            # A policy does not see that its question was answered, so it would ask for ever.
            answered = ctx.resume_input is not None
            return None if answered and isinstance(verdict, Suspend) else verdict

        self.gates.append(HookEntry(self.plugin_id, gate))

    def result(self, rewrite: ResultRewrite) -> None:
        """Register an async function of the context and a tool's result, which returns the result
        to be used: in the log, in events, for the model and for hooks. If it raises, the result is
        withheld, and the model gets an error."""
        look = _require_async(rewrite)

        async def rewrite_checked(ctx: PhaseContext, result: ToolResult) -> ToolResult:
            return _check_type(await look(ctx, result), (ToolResult,))

        self.rewrites.append(HookEntry(self.plugin_id, rewrite_checked))

    def transform(self, transform: RequestTransform) -> None:
        """Register a function that rewrites the messages of every request.

        Raises:
            ConfigError: the function is async.
        """
        if inspect.iscoroutinefunction(transform):
            name = transform.__name__
            raise ConfigError(
                f"plugin {self.plugin_id!r}: transform {name} is async; write `def {name}`"
            )
        self.transforms.append(HookEntry(self.plugin_id, transform))

    def tool(self, tool: Tool, *, spare: bool = False) -> None:
        """Add a tool to the agent; any other tool of the same id replaces a `spare` one."""
        tool_id = tool.descriptor().id
        if tool_id in self.tools:
            raise ToolAlreadyRegistered(tool_id)
        self.tools[tool_id] = tool
        if spare:
            self.spare_tools.add(tool_id)

    def service(self, kind: type[P], service: P) -> None:
        """Offer an object to tools, which get it with `ctx.service(kind)`.

        Raises:
            ConfigError: the plugin offers two services of this class.
        """
        if kind in self.services:
            raise ConfigError(
                f"plugin {self.plugin_id!r} offers two services of class {kind.__name__}: "
                "remove one of them"
            )
        self.services[kind] = service


def _require_async(call: Callable[..., Awaitable[P]]) -> Callable[..., Awaitable[P]]:
    """The function itself if it is async, else a wrapper that raises if it returns no awaitable."""
    if inspect.iscoroutinefunction(call):
        return call

    async def call_async(*args: Any) -> P:
        answer: Any = call(*args)
        if not inspect.isawaitable(answer):
            name = getattr(call, "__qualname__", f"{type(call).__qualname__}.__call__")
            raise TypeError(f"{name} is not async: write `async def {name.rpartition('.')[2]}`")
        awaited: P = await answer
        return awaited

    return call_async


def _check_type(answer: P, kinds: tuple[type, ...]) -> P:
    """The answer, if it is an instance of one of the classes.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(answer, kinds):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"expected one of {names}, not {type(answer).__name__}")
    return answer
