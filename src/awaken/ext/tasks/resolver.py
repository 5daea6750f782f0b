"""Background task support for the agents of delegates' runs and of runs inside tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.registry import ExecutionResolver, ModelResolver
from awaken.core.tool_context import Tool
from awaken.ext.tasks import lazy_tasks as background
from awaken.ext.tasks.state import BACKGROUND_PLUGIN_ID
from awaken.ext.tasks.task import BackgroundTaskExecutionContext
from awaken.ids import UUID7, Ids
from awaken.plugin.env import ExecutionEnv
from awaken.plugin.resolved_agent import ResolvedAgent


class BackgroundControlResolver:
    """A resolver whose agents all support background tasks.

    Agents without the background plugin get its state, hooks and manager, but not its tools. If
    the run belongs to a background task (`context`), each agent also gets a tool to cancel it.
    """

    def __init__(
        self,
        inner: ExecutionResolver,
        context: BackgroundTaskExecutionContext | None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
    ) -> None:
        self._inner = inner
        self._context = context
        if isinstance(inner, ModelResolver):
            self.resolve_model = inner.resolve_model
        # A run inside a task shares the handles of that task's manager.
        handles = (
            context.manager.handles if context else background.TaskHandles(clock=clock, ids=ids)
        )
        manager = background.BackgroundTaskManager(handles)
        self._plugin = background.BackgroundTaskPlugin(manager, tools=())

    def resolve(self, agent_id: str) -> ResolvedAgent:
        return self._prepare(self._inner.resolve(agent_id))

    def _prepare(self, agent: ResolvedAgent) -> ResolvedAgent:
        if not any(plugin.id == BACKGROUND_PLUGIN_ID for plugin in agent.env.plugins):
            agent = agent.with_env(_add_plugin(agent.env, self._plugin))
        if self._context is not None:
            agent = ensure_background_cancel_tool(agent, self._context)
        return agent

    def agent_ids(self) -> Sequence[str]:
        return self._inner.agent_ids()

    def resolve_execution(self, agent_id: str) -> Any:
        execution = self._inner.resolve_execution(agent_id)
        return self._prepare(execution) if isinstance(execution, ResolvedAgent) else execution


def ensure_background_cancel_tool(
    agent: ResolvedAgent, context: BackgroundTaskExecutionContext
) -> ResolvedAgent:
    """The agent with a `cancel_task` tool for the task it runs in, unless it already has a tool of
    that name."""
    name = background.CANCEL_TASK_TOOL_ID
    if name in agent.tools:
        return agent
    tool: Tool = background.CancelTaskTool(context.manager, context.record)
    env = msgspec.structs.replace(agent.env, tools={**agent.env.tools, name: tool})
    return agent.with_tool(tool).with_env(env)


def _add_plugin(env: ExecutionEnv, plugin: background.BackgroundTaskPlugin) -> ExecutionEnv:
    """The env with one more plugin, after its own."""
    more = ExecutionEnv.from_plugins([plugin])
    hooks = {phase: (*hooks, *more.hooks[phase]) for phase, hooks in env.hooks.items()}
    guards = {
        phase: tuple(hook.when for hook in hooks if hook.when is not None)
        for phase, hooks in hooks.items()
    }
    return msgspec.structs.replace(
        env,
        hooks=hooks,
        guards={p: found for p, found in guards.items() if found and len(found) == len(hooks[p])},
        keys={**env.keys, **more.keys},
        services={**more.services, **env.services},
        plugins=(*env.plugins, *more.plugins),
        binders=(*env.binders, *more.binders),
        is_shareable=False,
    )
