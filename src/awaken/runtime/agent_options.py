"""The options of agents that do not decide a type, for type checkers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from awaken.core.budget import Budget
    from awaken.core.inference import ContextWindowPolicy, ModelSettings, ReasoningEffort
    from awaken.core.profile import ProfileKey
    from awaken.core.spec import StopConditionSpec, ToolExecutorKind
    from awaken.core.state.key import StateKey
    from awaken.core.tool_context import Tool
    from awaken.ext.handoff import Handoff
    from awaken.plugin.hook import Plugin
    from awaken.runtime.agent import Agent
    from awaken.runtime.agent_arguments import GivenTool
    from awaken.runtime.remote_agent import RemoteAgent
    from awaken.runtime.team import Delegate


class AgentOptions(TypedDict, total=False):
    """The options of an agent that do not decide its type; see `Agent`."""

    tools: Iterable[GivenTool]
    state: Iterable[StateKey[Any, Any]]
    profile: Iterable[ProfileKey[Any]]
    plugins: Iterable[Plugin]
    delegates: Iterable[Agent[Any, Any] | RemoteAgent | Delegate | str]
    background: Iterable[Agent[Any, Any] | RemoteAgent | Tool | Callable[..., Any]]
    handoffs: Iterable[Agent[Any, Any] | str | Handoff]
    max_handoffs: int
    description: str | None
    max_rounds: int
    max_continuation_retries: int
    max_output_retries: int
    stop: Sequence[StopConditionSpec]
    budget: Budget | None
    sequential: bool | Iterable[str]
    tool_executor: ToolExecutorKind | None
    settings: ModelSettings | None
    reasoning_effort: ReasoningEffort | None
    context_policy: ContextWindowPolicy | None
    sections: Mapping[str, Any] | None
