"""The execution environment: the registrations of all plugins of an agent, in order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from awaken.core.inbox import InboxSender
from awaken.core.lifecycle import Phase
from awaken.core.profile import ProfileAccess, ProfileStore
from awaken.core.spec import AgentSpec
from awaken.core.state.command import EffectSpec, MutationBatch, ScheduledActionSpec
from awaken.core.state.key import KeyRegistration
from awaken.core.state.snapshot import Snapshot
from awaken.core.state.store import StateStore
from awaken.core.tool_context import Tool
from awaken.errors import (
    ConfigError,
    EffectHandlerAlreadyRegistered,
    HandlerAlreadyRegistered,
    HookFailed,
    KeyAlreadyRegistered,
    StateError,
    ToolAlreadyRegistered,
)
from awaken.plugin.hook import (
    ActionHandler,
    BindsRuntimeContext,
    EffectHandler,
    HookGuard,
    Plugin,
    RunScoped,
    SupportsActivation,
)
from awaken.plugin.registrar import HookEntry, Registrar

_NO_HOOKS: dict[Phase, tuple[HookEntry, ...]] = dict.fromkeys(Phase, ())


class ExecutionEnv(msgspec.Struct, kw_only=True):
    """The hooks, handlers, tools, keys and services of an agent's plugins."""

    hooks: dict[Phase, tuple[HookEntry, ...]] = msgspec.field(default_factory=_NO_HOOKS.copy)
    guards: dict[Phase, tuple[HookGuard, ...]] = {}
    """The guards of each phase in which every hook has one."""
    gates: tuple[HookEntry, ...] = ()
    actions: dict[str, tuple[ScheduledActionSpec[Any], ActionHandler]] = {}
    effects: dict[str, tuple[EffectSpec[Any], EffectHandler]] = {}
    transforms: tuple[HookEntry, ...] = ()
    rewrites: tuple[HookEntry, ...] = ()
    keys: dict[str, KeyRegistration] = {}
    profile_namespaces: frozenset[str] = frozenset()
    tools: dict[str, Tool] = {}
    spare_tools: frozenset[str] = frozenset()
    """The tools that any other tool of the same id replaces."""
    services: dict[type, object] = {}
    plugins: tuple[Plugin, ...] = ()
    binders: tuple[BindsRuntimeContext, ...] = ()
    activators: tuple[SupportsActivation, ...] = ()
    is_shareable: bool = True
    """Whether several runs may share this env: no plugin holds data of a run."""

    @classmethod
    def from_plugins(
        cls,
        plugins: Iterable[Plugin],
        active_hook_filter: Collection[str] = (),
        *,
        builtin: Iterable[Plugin] = (),
    ) -> ExecutionEnv:
        """Collect the registrations of the plugins, in order, the built-in ones last.

        With a filter, only the named and the built-in plugins contribute hooks, gates, transforms,
        tools and services. Keys and handlers of all plugins are registered.

        Raises:
            StateError: two plugins register the same handler, tool or key name.
        """
        collected = _Collected()
        for plugin in plugins:
            active = not active_hook_filter or plugin.id in active_hook_filter
            collected.add(plugin, active=active)
        for plugin in builtin:
            collected.add(plugin, active=True)
        return collected.env()

    def is_busy(self, phase: Phase, snapshot: Snapshot) -> bool:
        """Whether a hook of the phase has work to do.

        Also true if a guard raises: running the phase then raises the error.
        """
        guards = self.guards.get(phase)
        if guards is None:
            return bool(self.hooks[phase])
        try:
            for guard in guards:
                if guard(snapshot):
                    return True
        except BaseException:
            return True
        return False

    def bind(self, store: StateStore, owner_inbox: InboxSender | None) -> None:
        """Register the plugins' keys in a run's store, and give them the store and inbox."""
        if not store.shares(self.keys):
            store.register_keys(self.keys.values())
        for plugin in self.binders:
            with _name_errors(plugin, "bind_runtime_context"):
                plugin.bind_runtime_context(store, owner_inbox)

    def activate(self, store: StateStore, spec: AgentSpec) -> None:
        """Call the plugins' `on_activate`, and commit their writes in one commit.

        Raises:
            HookFailed: a plugin raised; nothing was written.
        """
        if not self.activators:
            return
        batch = MutationBatch()
        for plugin in self.activators:
            with _name_errors(plugin, "on_activate"):
                plugin.on_activate(spec, batch)
        store.commit(batch)

    def deactivate(self, store: StateStore) -> None:
        """Call the plugins' `on_deactivate`, and commit their writes in one commit.

        Raises:
            HookFailed: a plugin raised; nothing was written.
        """
        batch = MutationBatch()
        for plugin in self.activators:
            with _name_errors(plugin, "on_deactivate"):
                plugin.on_deactivate(batch)
        store.commit(batch)

    def profile_access(self, store: ProfileStore | None) -> ProfileAccess | None:
        return ProfileAccess(store, self.profile_namespaces) if store is not None else None


@contextmanager
def _name_errors(plugin: object, method: str) -> Iterator[None]:
    """Name the plugin and its method in the errors that the plugin raises.

    Raises:
        HookFailed: in place of any error that is not a `StateError`.
    """
    try:
        yield
    except StateError:
        raise
    except BaseException as error:
        raise HookFailed(getattr(plugin, "id", type(plugin).__name__), method, error) from error


class _Collected:
    """Collects the registrations of plugins; `env` makes an environment of them."""

    def __init__(self) -> None:
        self.plugins: list[Plugin] = []
        self.is_shareable = True
        self.hooks: dict[Phase, list[HookEntry]] = {phase: [] for phase in Phase}
        self.gates: list[HookEntry] = []
        self.transforms: list[HookEntry] = []
        self.rewrites: list[HookEntry] = []
        self.tools: dict[str, Tool] = {}
        self.spare_tools: set[str] = set()
        self.services: dict[type, object] = {}
        self.keys: dict[str, KeyRegistration] = {}
        self.profile_namespaces: set[str] = set()
        self.actions: dict[str, tuple[ScheduledActionSpec[Any], ActionHandler]] = {}
        self.effects: dict[str, tuple[EffectSpec[Any], EffectHandler]] = {}

    def add(self, plugin: Plugin, *, active: bool) -> None:
        if isinstance(plugin, RunScoped):
            self.is_shareable = False
            plugin = plugin.for_run()
        registrar = Registrar(plugin.id)
        plugin.register(registrar)
        self.plugins.append(plugin)
        self._add_structure(registrar)
        if active:
            self._add_behaviour(registrar)

    def _add_structure(self, brought: Registrar) -> None:
        for name, registration in brought.keys.items():
            known = self.keys.setdefault(name, registration)
            if known.key is not registration.key:
                raise KeyAlreadyRegistered(name)
        self.profile_namespaces.update(brought.profile_keys)
        for name, action in brought.actions.items():
            if name in self.actions:
                raise HandlerAlreadyRegistered(name)
            self.actions[name] = action
        for name, effect in brought.effects.items():
            if name in self.effects:
                raise EffectHandlerAlreadyRegistered(name)
            self.effects[name] = effect

    def _add_behaviour(self, brought: Registrar) -> None:
        for phase, hook in brought.hooks:
            self.hooks[phase].append(hook)
        self.gates.extend(brought.gates)
        self.transforms.extend(brought.transforms)
        self.rewrites.extend(brought.rewrites)
        for tool_id, tool in brought.tools.items():
            self._add_tool(tool_id, tool, spare=tool_id in brought.spare_tools)
        for kind, service in brought.services.items():
            if kind in self.services:
                raise ConfigError(
                    f"two plugins offer a {kind.__name__}, the second is {brought.plugin_id!r}: "
                    "remove one of them"
                )
            self.services[kind] = service

    def _add_tool(self, tool_id: str, tool: Tool, *, spare: bool) -> None:
        if tool_id in self.tools:
            if spare:
                return
            if tool_id not in self.spare_tools:
                raise ToolAlreadyRegistered(tool_id)
            self.spare_tools.discard(tool_id)
        elif spare:
            self.spare_tools.add(tool_id)
        self.tools[tool_id] = tool

    def env(self) -> ExecutionEnv:
        binders = tuple(p for p in self.plugins if isinstance(p, BindsRuntimeContext))
        return ExecutionEnv(
            hooks={phase: tuple(hooks) for phase, hooks in self.hooks.items()},
            guards={
                phase: tuple(guards)
                for phase, hooks in self.hooks.items()
                if (guards := [hook.when for hook in hooks if hook.when is not None])
                and len(guards) == len(hooks)
            },
            gates=tuple(self.gates),
            actions=self.actions,
            effects=self.effects,
            transforms=tuple(self.transforms),
            rewrites=tuple(self.rewrites),
            keys=self.keys,
            profile_namespaces=frozenset(self.profile_namespaces),
            tools=self.tools,
            spare_tools=frozenset(self.spare_tools),
            services=self.services,
            plugins=tuple(self.plugins),
            binders=binders,
            activators=tuple(p for p in self.plugins if isinstance(p, SupportsActivation)),
            is_shareable=self.is_shareable and not binders,
        )


def install_plugin(store: StateStore, plugin: Plugin) -> None:
    """Register all keys of a plugin in a store, or none of them.

    Raises:
        PluginAlreadyInstalled, KeyAlreadyRegistered: nothing was registered.
    """
    registrar = Registrar(plugin.id)
    plugin.register(registrar)
    store.install(plugin.id, registrar.keys.values())


def uninstall_plugin(store: StateStore, plugin: Plugin) -> None:
    """Remove a plugin's keys, and their values unless these are retained."""
    store.uninstall(plugin.id)
