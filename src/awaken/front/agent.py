"""An agent, as a user writes it."""

from __future__ import annotations

import copy
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Never, TypeVar

import msgspec

from awaken import backend
from awaken.contract.llm import LlmExecutor
from awaken.contract.output import AnswerCheck
from awaken.contract.profile import ProfileKey
from awaken.contract.tool import Tool
from awaken.domain.budget import Budget
from awaken.domain.inference import ContextWindowPolicy, ReasoningEffort, effort_problem
from awaken.domain.pool import ModelPoolSpec
from awaken.domain.spec import AgentSpec, ContentMatch, StopConditionSpec, ToolExecutorKind
from awaken.errors import ConfigError
from awaken.ext import handoff
from awaken.ext.handoff import MAX_HANDOFFS, Handoff
from awaken.front.budgets import checked_budget
from awaken.front.hints import unknown_argument
from awaken.front.loading import as_pool
from awaken.front.output import OutputType
from awaken.front.remote import RemoteAgent
from awaken.plugin.hook import Plugin
from awaken.plugin.registrar import Registrar
from awaken.state.key import StateKey
from awaken.tool import tool as as_tool

T = TypeVar("T")


class Agent:
    """A model with a prompt, tools, state and plugins.

    Args:
        id: the name by which callers ask for the agent.
        model: a name (`"openai:gpt-5-mini"`, `"demo"`), a list of names (the next model is asked
            when one cannot answer), a pool (`ModelPoolSpec`), or any object with `name` and
            `execute_stream(request)`.
        tools: functions, or tools made from them.
        state: typed keys that its tools and plugins write.
        plugins: plugins, in the order in which they run.
        delegates: agents it may give tasks to. For each there is a tool `agent_run_<id>` that
            returns that agent's answer. Agents named here, in `background` or in `handoffs` must
            also be passed to the `Runtime`.
        background: tools and agents whose calls start a background task and return at once. The
            agent gets a message when the task has ended, also after a restart.
        handoffs: agents it may hand the conversation to with the tool `handoff`; a `Handoff`
            instead of an agent sets options for that handoff.
        max_handoffs: the most hand-overs in one run.
        description: what other agents are told about it.
        max_rounds: the most model calls in one run; 0 means no limit.
        stop: further conditions that end a run.
        budget: the most that a run, with all the runs and tasks it starts, may use. The result says
            how much was used.
        sequential: run the tool calls of a step one after another.
        tool_executor: how the tool calls of a step are run, if `sequential` is not enough.
        profile: typed keys whose values are kept across threads.
        output: the type of its structured output, found in a result's `output`: a dataclass,
            TypedDict, Struct, pydantic model, list or union. An answer that does not fit the type
            is sent back to the model with the reason, at most `max_output_retries` times.
        context_policy: how much of a long conversation the model is shown, and when a summary
            replaces its beginning. Without a policy the model is shown everything.
        reasoning_effort, max_continuation_retries: how much the model reasons before it answers,
            and how often it may continue an answer that was cut off.
        sections: configuration of plugins, by the name of their section.

    Raises:
        ConfigError: an argument cannot work; the text says which, and what to do.
    """

    def __init__(
        self,
        id: str,
        *,
        model: str | LlmExecutor | ModelPoolSpec | Sequence[str],
        system_prompt: str = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        state: Iterable[StateKey[Any, Any]] = (),
        profile: Iterable[ProfileKey[Any]] = (),
        plugins: Iterable[Plugin] = (),
        delegates: Iterable[Agent | RemoteAgent | str] = (),
        background: Iterable[Agent | RemoteAgent | Tool | Callable[..., Any]] = (),
        handoffs: Iterable[Agent | str | Handoff] = (),
        max_handoffs: int = MAX_HANDOFFS,
        description: str | None = None,
        max_rounds: int = 16,
        max_continuation_retries: int = 2,
        output: Any = None,
        max_output_retries: int = 2,
        stop: Sequence[StopConditionSpec] = (),
        budget: Budget | None = None,
        sequential: bool = False,
        tool_executor: ToolExecutorKind | None = None,
        reasoning_effort: ReasoningEffort | None = None,
        context_policy: ContextWindowPolicy | None = None,
        sections: Mapping[str, Any] | None = None,
        **unknown: Never,
    ) -> None:
        for name in unknown:
            raise unknown_argument(name, inspect.getfullargspec(Agent).kwonlyargs)
        self.model = _checked_model(id, model)
        self.id = id
        self.output = OutputType(f"agent {id!r}", output) if output is not None else None
        mine = f"agent {id!r}: "
        aside_tools, aside_agents = _aside(listed(background, mine + "background"), f"agent {id!r}")
        self.tools = [*tools_of(f"agent {id!r}", tools), *aside_tools]
        _check_names(self.tools, f"agent {id!r}")
        told = tuple(_id(agent) for agent in listed(delegates, mine + "delegates"))
        self.state = listed(state, mine + "state")
        self.profile = listed(profile, mine + "profile")
        self.plugins = listed(plugins, mine + "plugins")
        for plugin in self.plugins:
            _check_plugin(plugin, mine)
        self.ways = tuple(Handoff.of(item) for item in listed(handoffs, mine + "handoffs"))
        self.handoffs = tuple(way.agent for way in self.ways)
        self.max_handoffs = max_handoffs
        if max_handoffs < 1:
            raise ConfigError(f"{mine}max_handoffs is 1 or more, not {max_handoffs}")
        if sequential and tool_executor not in (None, ToolExecutorKind.SEQUENTIAL):
            raise ConfigError(f"agent {id!r}: give either sequential or tool_executor")
        executor = ToolExecutorKind.SEQUENTIAL if sequential else tool_executor
        self._spec = AgentSpec(
            id=id,
            model_id=_model_id(id, self.model),
            system_prompt=system_prompt,
            description=description,
            max_rounds=max_rounds,
            max_continuation_retries=max_continuation_retries,
            output=self.output.format if self.output is not None else None,
            max_output_retries=max_output_retries,
            context_policy=context_policy,
            reasoning_effort=reasoning_effort,
            delegates=(*told, *aside_agents),
            background_tools=(
                *[tool.descriptor().id for tool in aside_tools],
                *[backend.delegate_tool_name(agent) for agent in aside_agents],
            ),
            stop_conditions=listed(stop, mine + "stop"),
            budget=checked_budget(budget, f"agent {id!r}"),
            tool_executor=executor or ToolExecutorKind.PARALLEL_STREAMING,
            sections=dict(sections or {}),
            plugin_ids=tuple(plugin.id for plugin in self.plugins),
        )
        _check_spec(self._spec)

    @property
    def spec(self) -> AgentSpec:
        """The agent as data."""
        return self._spec

    def own_plugin(
        self,
        descriptions: Mapping[str, str] | None = None,
        received: Mapping[str, Handoff] | None = None,
    ) -> Plugin:
        """A plugin with what belongs to this agent alone: its tools, state keys and hand-overs.

        `descriptions` says what other agents are for; `received` are the handoffs to this agent, by
        the agent they come from.
        """
        received = received or {}
        sees_all = all(way.input_filter == "all" for way in received.values())
        kind = _OwnPlugin if sees_all else _OwnRunPlugin
        return kind(self, descriptions or {}, received)

    def __repr__(self) -> str:
        return f"Agent({self.id!r})"


class _OwnPlugin:
    """Brings an agent's tools, keys and hand-overs."""

    def __init__(
        self, agent: Agent, descriptions: Mapping[str, str], received: Mapping[str, Handoff]
    ) -> None:
        self._agent = agent
        back_to = [giver for giver, way in received.items() if way.returns]
        self._handoff: handoff.HandoffPlugin | None = None
        if agent.ways or back_to:
            self._handoff = handoff.HandoffPlugin(
                agent.ways, descriptions, back_to=back_to, max_handoffs=agent.max_handoffs
            )
        self.id = f"agent:{agent.id}"

    def register(self, registrar: Registrar) -> None:
        for key in self._agent.state:
            registrar.key(key)
        for profile_key in self._agent.profile:
            registrar.profile_key(profile_key)
        for tool in self._agent.tools:
            registrar.tool(tool)
        if self._agent.output is not None:
            registrar.service(AnswerCheck, AnswerCheck(self._agent.output.problem))
        if self._handoff is not None:
            self._handoff.register(registrar)


class _OwnRunPlugin(_OwnPlugin):
    """The same for an agent that is shown only a part of the conversation it is handed."""

    def __init__(
        self, agent: Agent, descriptions: Mapping[str, str], received: Mapping[str, Handoff]
    ) -> None:
        super().__init__(agent, descriptions, received)
        self._input = handoff.HandoffInputPlugin(
            {giver: way.input_filter for giver, way in received.items()}
        )

    def for_run(self) -> _OwnRunPlugin:
        mine = copy.copy(self)
        mine._input = self._input.for_run()
        return mine

    def register(self, registrar: Registrar) -> None:
        super().register(registrar)
        self._input.register(registrar)


def _checked_model(id: Any, model: Any) -> str | LlmExecutor | ModelPoolSpec:
    if not isinstance(id, str) or not id.strip():
        raise ConfigError(f"an agent's id is text that is not blank, not {id!r}")
    if isinstance(model, list | tuple):
        return as_pool(id, model)
    if isinstance(model, str | ModelPoolSpec):
        return model
    if not callable(getattr(model, "execute_stream", None)):
        raise ConfigError(
            f"agent {id!r}: model is a name such as 'demo', a list of names, or an object with "
            f"execute_stream(request), not {type(model).__name__}"
        )
    asks: LlmExecutor = model
    return asks


def _model_id(id: str, model: str | LlmExecutor | ModelPoolSpec) -> str:
    if isinstance(model, str):
        return model
    return model.id if isinstance(model, ModelPoolSpec) else f"{id}.model"


def _aside(
    items: Sequence[Agent | RemoteAgent | Tool | Callable[..., Any]], owner: str
) -> tuple[list[Tool], list[str]]:
    """Returns the tools, and the ids of the agents, that run in the background."""
    tools = [_as_tool_object(owner, i) for i in items if not isinstance(i, Agent | RemoteAgent)]
    return tools, [item.id for item in items if isinstance(item, Agent | RemoteAgent)]


def _id(agent: Agent | RemoteAgent | str) -> str:
    return agent if isinstance(agent, str) else agent.id


def listed(items: Iterable[T], what: str) -> tuple[T, ...]:
    """The items of a list that a user passed, as a tuple.

    Raises:
        ConfigError: the argument is a single item; a text would be split into its letters.
    """
    given: Any = items
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"{what} is a list, not {given!r}: write [{given!r}]")
    return tuple(items)


def _check_plugin(plugin: Any, mine: str) -> None:
    if isinstance(plugin, type):
        raise ConfigError(f"{mine}{plugin.__name__} is a class, not a plugin; give an instance")
    if not isinstance(getattr(plugin, "id", None), str):
        raise ConfigError(f"{mine}plugin {plugin!r} has no id: give it one, as in id = 'mine'")
    if not callable(getattr(plugin, "register", None)):
        raise ConfigError(f"{mine}plugin {plugin.id!r} has no register(registrar) method")
    if inspect.iscoroutinefunction(plugin.register):
        raise ConfigError(f"{mine}register of plugin {plugin.id!r} is async; write `def register`")


def _check_spec(spec: AgentSpec) -> None:
    """
    Raises:
        ConfigError: a field does not fit its type; the text names both.
    """
    check_effort(spec)
    try:
        msgspec.convert(msgspec.to_builtins(spec), AgentSpec)
    except (msgspec.ValidationError, TypeError) as error:
        raise ConfigError(f"agent {spec.id!r}: {error}") from error
    if spec.context_policy is not None:
        _check_policy(spec.context_policy, f"agent {spec.id!r}: context_policy.")
    for name in ("max_rounds", "max_continuation_retries", "max_output_retries"):
        if getattr(spec, name) < 0:
            raise ConfigError(f"agent {spec.id!r}: {name} is 0 or more, 0 for no limit")
    for condition in spec.stop_conditions:
        if isinstance(condition, ContentMatch):
            try:
                re.compile(condition.pattern)
            except re.error as error:
                raise ConfigError(
                    f"agent {spec.id!r}: {condition.pattern!r} is no regular expression: {error}"
                ) from error


def check_effort(spec: AgentSpec) -> None:
    """
    Raises:
        ConfigError: the reasoning effort is unknown; the text lists the known ones.
    """
    if (problem := effort_problem(spec.reasoning_effort)) is not None:
        raise ConfigError(f"agent {spec.id!r}: {problem}")


def _check_policy(policy: ContextWindowPolicy, mine: str) -> None:
    for name in ("max_context_tokens", "autocompact_threshold", "max_messages"):
        limit = getattr(policy, name)
        if limit is not None and limit < 1:
            raise ConfigError(f"{mine}{name} is 1 or more")
    for name in ("max_output_tokens", "min_recent_messages", "compaction_raw_suffix_messages"):
        if getattr(policy, name) < 0:
            raise ConfigError(f"{mine}{name} is 0 or more")
    if policy.max_output_tokens >= policy.max_context_tokens:
        raise ConfigError(
            f"{mine}max_output_tokens of {policy.max_output_tokens} leaves no room for a question "
            f"in max_context_tokens of {policy.max_context_tokens}"
        )


def _check_names(tools: Sequence[Tool], owner: str) -> None:
    counted = Counter(tool.descriptor().id for tool in tools)
    for name in (name for name, count in counted.items() if count > 1):
        raise ConfigError(
            f"{owner} has two tools named {name!r}: leave one out, or rename one, as in "
            "tool(function, name='…')"
        )


def tools_of(owner: str, items: Iterable[Tool | Callable[..., Any]]) -> list[Tool]:
    """The items as tools; a function is made into one.

    Raises:
        ConfigError: an item is not a tool.
    """
    given: Any = items
    # A name alone is treated as an item: "is not a tool" says more than "is not a list".
    each: Iterable[Any] = [given] if isinstance(given, str) else listed(given, f"{owner}: tools")
    return [_as_tool_object(owner, item) for item in each]


def _as_tool_object(owner: str, item: Tool | Callable[..., Any]) -> Tool:
    if isinstance(item, type):
        raise ConfigError(
            f"{owner}: {item.__name__} is a class, not a tool; give an instance of it"
        )
    if callable(getattr(item, "descriptor", None)):
        return item  # type: ignore[return-value]  # an object with a descriptor is a tool
    if callable(item):
        return as_tool(item)
    wanted = "give a function or an object with descriptor() and execute()"
    if isinstance(item, str):
        wanted += f", not its name: tools=[{item}]" if item.isidentifier() else ", not its name"
    raise ConfigError(f"{owner}: {item!r} is not a tool; {wanted}")
