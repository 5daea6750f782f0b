"""The two built-in plugins of every agent: the loop's state keys and its action handlers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from awaken.core.context_message import ContextMessage, ThrottleEntry, accepts
from awaken.core.inference import InferenceOverride
from awaken.core.state.command import (
    ADD_CONTEXT_MESSAGE,
    EXCLUDE_TOOL,
    INCLUDE_ONLY_TOOLS,
    SET_INFERENCE_OVERRIDE,
    Command,
)
from awaken.core.state.run_keys import (
    CONTEXT_WINDOW,
    HAS_BLOB_MEDIA,
    HAS_LARGE_RESULTS,
    LOOP_STATE_KEYS,
    RUN_LIFECYCLE,
)
from awaken.core.state.step_keys import (
    CONTEXT_MESSAGES,
    CONTEXT_THROTTLE,
    INFERENCE_OVERRIDE,
    TOOL_FILTER,
    ExcludeTool,
    IncludeOnly,
    NoteThrottle,
    UpsertContext,
)
from awaken.plugin.context import PhaseContext
from awaken.plugin.env import ExecutionEnv
from awaken.plugin.hook import Plugin
from awaken.plugin.registrar import Registrar
from awaken.plugin.resolved_agent import ResolvedAgent


class LoopStatePlugin:
    """Registers the state keys of the loop."""

    id = "__loop_state"

    def register(self, registrar: Registrar) -> None:
        for key in LOOP_STATE_KEYS:
            registrar.key(key)
        registrar.key(CONTEXT_WINDOW)
        registrar.key(HAS_LARGE_RESULTS)
        registrar.key(HAS_BLOB_MEDIA)


class LoopActionHandlersPlugin:
    """Handles the actions that add context messages, filter tools or override inference parameters
    for one step."""

    id = "__loop_action_handlers"

    def register(self, registrar: Registrar) -> None:
        registrar.key(TOOL_FILTER)
        registrar.key(INFERENCE_OVERRIDE)
        registrar.action(ADD_CONTEXT_MESSAGE, add_context_message)
        registrar.action(SET_INFERENCE_OVERRIDE, set_inference_override)
        registrar.action(EXCLUDE_TOOL, exclude_tool)
        registrar.action(INCLUDE_ONLY_TOOLS, include_only_tools)


async def add_context_message(ctx: PhaseContext, message: ContextMessage) -> Command | None:
    lifecycle = ctx.read(RUN_LIFECYCLE)
    step = (lifecycle.step_count if lifecycle else 0) + 1
    seen = (ctx.read(CONTEXT_THROTTLE) or {}).get(message.key)
    if not accepts(message, seen, step):
        return None
    entry = ThrottleEntry(last_step=step, content_hash=message.content_hash())
    return (
        Command()
        .update(CONTEXT_THROTTLE, NoteThrottle(key=message.key, entry=entry))
        .update(CONTEXT_MESSAGES, UpsertContext(message=message))
    )


async def set_inference_override(_: PhaseContext, override: InferenceOverride) -> Command:
    return Command().update(INFERENCE_OVERRIDE, override)


async def exclude_tool(_: PhaseContext, tool_id: str) -> Command:
    return Command().update(TOOL_FILTER, ExcludeTool(tool_id=tool_id))


async def include_only_tools(_: PhaseContext, tool_ids: Any) -> Command:
    return Command().update(TOOL_FILTER, IncludeOnly(tool_ids=tuple(tool_ids)))


def build_agent_env(plugins: Iterable[Plugin], agent: ResolvedAgent) -> ExecutionEnv:
    """The env for an agent that was not built by a resolver: its plugins and the built-in ones."""
    return ExecutionEnv.from_plugins(
        plugins,
        agent.spec.active_hook_filter,
        builtin=(LoopStatePlugin(), LoopActionHandlersPlugin()),
    )
