"""An agent, as a user writes it."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Never, Unpack, overload

import msgspec

from awaken.core.agent_services import AnswerCheck
from awaken.core.budget import Budget
from awaken.core.deps import RunInfo
from awaken.core.inference import ContextWindowPolicy, ModelSettings, ReasoningEffort
from awaken.core.lifecycle import Phase
from awaken.core.message import Message
from awaken.core.profile import ProfileKey
from awaken.core.spec import AgentSpec, ModelPoolSpec, StopConditionSpec, ToolExecutorKind
from awaken.core.state.key import StateKey
from awaken.core.tool_context import Tool
from awaken.errors import ConfigError, ResolveFailed
from awaken.ext.handoff import MAX_HANDOFFS, Handoff
from awaken.plugin.context import PhaseContext
from awaken.plugin.hook import PhaseHook, Plugin
from awaken.runtime.agent_arguments import (
    GivenTool,
    check_deps_of,
    check_function,
    check_names,
    check_spec,
    check_texts,
    model_id,
    one_at_a_time,
    parse_agent_settings,
    parse_budget,
    parse_deps_type,
    parse_list,
    parse_max_handoffs,
    parse_model,
    parse_plugins,
    parse_prompt,
    parse_tool_executor,
    tools_of,
)
from awaken.runtime.agent_override import Changed, Override
from awaken.runtime.agent_plugin import OwnPlugin, OwnRunPlugin
from awaken.runtime.hints import OF_AGENT, missing_argument, unknown_argument, unknown_attribute
from awaken.runtime.output import OutputType
from awaken.runtime.output_functions import FunctionsOutput, output_of, parse_output_check
from awaken.runtime.remote_agent import RemoteAgent
from awaken.runtime.run_options import RunOptions, takes
from awaken.runtime.team import AgentTeam, Delegate
from awaken.runtime.wrong_calls import with_hints
from awaken.tool.toolset import Toolset, load_toolset_tools

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from typing_extensions import TypeVar

    from awaken.core.llm import LlmExecutor
    from awaken.core.store.store import Store
    from awaken.runtime.agent_options import AgentOptions
    from awaken.runtime.result import RunResult
    from awaken.runtime.stream import RunStream

    Deps_contra = TypeVar("Deps_contra", contravariant=True, default=Any)
    Out_co = TypeVar("Out_co", covariant=True, default=str)
    Model = str | LlmExecutor | ModelPoolSpec | Sequence[str]
    OutputCheck = Callable[[PhaseContext[Deps_contra], Out_co], Out_co | Awaitable[Out_co]]
    Prompt = Callable[[PhaseContext[Deps_contra]], str | Awaitable[str]]
else:
    from typing import TypeVar

    Deps_contra = TypeVar("Deps_contra", contravariant=True)
    Out_co = TypeVar("Out_co", covariant=True)

Hook = TypeVar("Hook", bound=PhaseHook)


class Agent(Generic[Deps_contra, Out_co]):
    """A model with a prompt, tools, state and plugins.

    Args:
        id: the name by which callers ask for the agent.
        model: a name (`"openai:gpt-5-mini"`, `"demo"`), a list of names (the next model is asked
            when one cannot answer), a pool (`ModelPoolSpec`), or any object with `name` and
            `execute_stream(request)`.
        system_prompt: a text, or a function of the run's context (`PhaseContext`), async or not,
            that is asked for the text once in each step.
        deps: the class of the agent's dependencies: live objects such as a database session. Give
            them to `run(…, deps=…)`; tools, hooks and the prompt read them as `ctx.deps`. They are
            never stored: `Runtime(deps={Deps: make})` makes them again after a restart.
        tools: functions, tools made from them, or sets of tools (`awaken.toolsets`).
        state: typed keys that its tools and plugins write.
        plugins: plugins, in the order in which they run.
        delegates: agents it may give tasks to. For each there is a tool `agent_run_<id>` that
            returns that agent's answer. Agents that are given here, in `background` or `handoffs`
            as objects come with this agent; those given by id must be passed to the `Runtime`.
            `agent.with_deps(fn)` gives a delegate other dependencies.
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
        sequential: run the tool calls of a step one after another; or a list of the tools, as
            patterns (`delete_*`, `set:crm`), whose calls run alone.
        tool_executor: how the tool calls of a step are run, if `sequential` is not enough.
        profile: typed keys whose values are kept across threads.
        output: the type of its structured output, found in a result's `output`: a dataclass,
            TypedDict, Struct, pydantic model, list or union. An answer that does not fit the type
            is sent back to the model with the reason, at most `max_output_retries` times.
            A list of functions instead: the model ends its work with a call of one of them, and
            what that returns is the output.
        output_check: an async function of the run's context and the output. It returns the output,
            changed or not, or raises `Retry("…")` to have the model answer again.
        context_policy: how much of a long conversation the model is shown, and when a summary
            replaces its beginning. Without a policy the model is shown everything.
        settings: temperature, token limit and other parameters of requests to the model; see
            `ModelSettings`.
        reasoning_effort, max_continuation_retries: how much the model reasons before it answers,
            and how often it may continue an answer that was cut off.
        sections: configuration of plugins, by the name of their section.

    Raises:
        ConfigError: an argument cannot work; the text says which, and what to do.
    """

    @overload
    def __init__(
        self: Agent[Any, str],
        id: str,
        *,
        model: Model,
        system_prompt: str | Prompt[Any] = "",
        output: None = None,
        output_check: OutputCheck[Any, str] | None = None,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Deps_contra, str],
        id: str,
        *,
        model: Model,
        deps: type[Deps_contra],
        system_prompt: str | Prompt[Deps_contra] = "",
        output: None = None,
        output_check: OutputCheck[Deps_contra, str] | None = None,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        id: str,
        *,
        model: Model,
        output: type[Out_co],
        output_check: OutputCheck[Deps_contra, Out_co] | None = None,
        deps: type[Deps_contra] | None = None,
        system_prompt: str | Prompt[Deps_contra] = "",
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Any, Any],
        id: str,
        *,
        model: Model,
        output: Any,
        output_check: OutputCheck[Any, Any] | None = None,
        system_prompt: str | Prompt[Any] = "",
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Deps_contra, Any],
        id: str,
        *,
        model: Model,
        output: Any,
        output_check: OutputCheck[Deps_contra, Any] | None = None,
        deps: type[Deps_contra],
        system_prompt: str | Prompt[Deps_contra] = "",
        **options: Unpack[AgentOptions],
    ) -> None: ...
    def __init__(
        self,
        id: str | None = None,
        *,
        model: Model | None = None,
        deps: type[Deps_contra] | None = None,
        system_prompt: str | Prompt[Deps_contra] = "",
        tools: Iterable[GivenTool] = (),
        state: Iterable[StateKey[Any, Any]] = (),
        profile: Iterable[ProfileKey[Any]] = (),
        plugins: Iterable[Plugin] = (),
        delegates: Iterable[Agent[Any, Any] | RemoteAgent | Delegate | str] = (),
        background: Iterable[Agent[Any, Any] | RemoteAgent | Tool | Callable[..., Any]] = (),
        handoffs: Iterable[Agent[Any, Any] | str | Handoff] = (),
        max_handoffs: int = MAX_HANDOFFS,
        description: str | None = None,
        max_rounds: int = 16,
        max_continuation_retries: int = 2,
        output: Any = None,
        output_check: OutputCheck[Deps_contra, Any] | None = None,
        max_output_retries: int = 2,
        stop: Sequence[StopConditionSpec] = (),
        budget: Budget | None = None,
        sequential: bool | Iterable[str] = False,
        tool_executor: ToolExecutorKind | None = None,
        settings: ModelSettings | None = None,
        reasoning_effort: ReasoningEffort | None = None,
        context_policy: ContextWindowPolicy | None = None,
        sections: Mapping[str, Any] | None = None,
        **unknown: Never,
    ) -> None:
        for name in unknown:
            raise unknown_argument(name, inspect.getfullargspec(Agent).kwonlyargs)
        if id is None or model is None:
            raise missing_argument(id, model)
        self.model = parse_model(id, model)
        self.id, whose, mine = id, f"agent {id!r}", f"agent {id!r}: "
        self.output = output_of(whose, output)
        self.output_check = parse_output_check(output_check, self.output, mine)
        self.deps = parse_deps_type(deps, mine)
        self.prompt = parse_prompt(system_prompt, mine)
        self.state = parse_list(state, mine + "state")
        self.profile = parse_list(profile, mine + "profile")
        self.plugins = parse_plugins(plugins, mine)
        self.hooks: list[tuple[Phase, PhaseHook]] = []
        team = AgentTeam(whose, delegates, background, handoffs)
        self.team, self.delegate_deps, self.ways = team.members, team.delegate_deps, team.ways
        self.handoffs = tuple(way.agent for way in self.ways)
        self.max_handoffs = parse_max_handoffs(max_handoffs, mine)
        self.sequential = (
            () if isinstance(sequential, bool) else parse_list(sequential, mine + "sequential")
        )
        self.toolsets: list[Toolset] = []
        """The sets that have tools of their own in each run."""
        self.tools = self._all_tools(tools, team.background_tools)
        self._spec = AgentSpec(
            id=id,
            model_id=model_id(id, self.model),
            system_prompt=system_prompt if isinstance(system_prompt, str) else "",
            description=description,
            max_rounds=max_rounds,
            max_continuation_retries=max_continuation_retries,
            output=self.output.format if self.output is not None else None,
            max_output_retries=max_output_retries,
            context_policy=context_policy,
            settings=parse_agent_settings(settings, whose),
            reasoning_effort=reasoning_effort,
            delegates=team.delegates,
            background_tools=team.background,
            stop_conditions=parse_list(stop, mine + "stop"),
            budget=parse_budget(budget, whose),
            tool_executor=parse_tool_executor(sequential, tool_executor, mine),
            sections=dict(sections or {}),
            plugin_ids=tuple(plugin.id for plugin in self.plugins),
        )
        check_spec(self._spec)

    def _all_tools(
        self, given: Iterable[GivenTool], in_background: Sequence[Tool] = ()
    ) -> list[Tool]:
        """The given tools, those for the background, and the output functions. Sets that have
        further tools in each run are added to `toolsets`.

        Raises:
            ConfigError: one is no tool, wants other dependencies, or has the name of another.
        """
        whose, mine = f"agent {self.id!r}", f"agent {self.id!r}: "
        tools: list[Tool] = [*tools_of(whose, given, self.toolsets), *in_background]
        check_deps_of(tools, self.deps, mine)
        if isinstance(self.output, FunctionsOutput):
            check_deps_of([one.inner for one in self.output.tools], self.deps, mine)
            tools += self.output.tools
        check_names(tools, whose)
        return one_at_a_time(tools, self.sequential) if self.sequential else tools

    async def load_run_tools(self, run: RunInfo, known: Mapping[str, Tool]) -> Mapping[str, Tool]:
        """The tools that the agent's sets offer in one run only.

        Raises:
            ResolveFailed, ToolIdConflict: they cannot be had, or do not fit the agent.
        """
        offered = await load_toolset_tools(self.toolsets, run, known)
        try:
            check_deps_of(offered.values(), self.deps, f"agent {self.id!r}: ")
        except ConfigError as error:
            raise ResolveFailed(str(error)) from error
        if not self.sequential:
            return offered
        return dict(zip(offered, one_at_a_time(offered.values(), self.sequential), strict=True))

    @property
    def spec(self) -> AgentSpec:
        """The agent as data."""
        return self._spec

    def with_deps(self, make: Callable[[Any], Any]) -> Delegate:
        """This agent as a delegate whose dependencies `make`, async or not, makes from those of the
        agent that delegates: `delegates=[clerk.with_deps(lambda shop: shop.till)]`."""
        check_function(make, f"with_deps of agent {self.id!r}", takes="the dependencies above")
        return Delegate(self, make)

    def on(self, phase: Phase) -> Callable[[Hook], Hook]:
        """A decorator that makes an async function of the context a hook of this agent:
        `@agent.on(Phase.STEP_END)`. Runtimes that are made afterwards have it.

        Raises:
            ConfigError: it is not a phase, or the function is not async.
        """
        given: Any = phase
        if not isinstance(given, Phase) or given is Phase.TOOL_GATE:
            known = ", ".join(f"Phase.{one.name}" for one in Phase if one is not Phase.TOOL_GATE)
            raise ConfigError(f"agent {self.id!r}: on takes one of {known}, not {phase!r}")

        def add(hook: Hook) -> Hook:
            what = f"agent {self.id!r}: the hook on {phase.value}"
            given: Any = hook
            if not inspect.iscoroutinefunction(given):
                raise ConfigError(f"{what} is not async: write `async def`")
            check_function(hook, what, takes="the run's context")
            self.hooks.append((phase, hook))
            return hook

        return add

    # -- running ------------------------------------------------------------------------------

    @with_hints
    @takes(RunOptions)
    async def run(
        self,
        input: str | Message | Iterable[Message | str] | None,
        *,
        deps: Deps_contra | None = None,
        store: str | Store = "memory:",
        **options: Unpack[RunOptions],
    ) -> RunResult[Out_co]:
        """Run the agent in a `Runtime` of its own, which is opened for the run and closed after it
        and its background tasks. With the default `store` nothing is kept; for conversations,
        approvals and recovery, open a `Runtime`. It raises as `Runtime.run` does.
        """
        result: RunResult[Out_co] = await _once().run(self, input, store, {"deps": deps, **options})
        return result

    @with_hints
    @takes(RunOptions)
    def run_sync(
        self,
        input: str | Message | Iterable[Message | str] | None,
        *,
        deps: Deps_contra | None = None,
        store: str | Store = "memory:",
        **options: Unpack[RunOptions],
    ) -> RunResult[Out_co]:
        """`run`, for programs without an event loop.

        Raises:
            ConfigError: it was called inside an event loop; await `run` instead.
        """
        result: RunResult[Out_co] = _once().run_sync(self, input, store, {"deps": deps, **options})
        return result

    @with_hints
    @takes(RunOptions)
    def stream(
        self,
        input: str | Message | Iterable[Message | str] | None,
        *,
        deps: Deps_contra | None = None,
        store: str | Store = "memory:",
        **options: Unpack[RunOptions],
    ) -> AbstractAsyncContextManager[RunStream]:
        """`run`, with its events as they come: `async with agent.stream("…") as events:`."""
        events: AbstractAsyncContextManager[RunStream] = _once().AgentStream(
            self, input, store, {"deps": deps, **options}
        )
        return events

    def override(
        self,
        *,
        model: Model | None = None,
        system_prompt: str | Prompt[Deps_contra] | None = None,
        tools: Iterable[GivenTool] | None = None,
        deps: Any = None,
    ) -> Override:
        """A context manager: within its block, and in the tasks started there, runs of this agent
        use another model, prompt, tools or dependencies. For tests of code that runs the agent:
        `with agent.override(model=ScriptedModel(["Hello"])): …`."""
        changed = copy.copy(self)
        spec = self._spec
        if model is not None:
            changed.model = parse_model(self.id, model)
            spec = msgspec.structs.replace(spec, model_id=f"{self.id}.override")
            if isinstance(changed.model, str | ModelPoolSpec):
                spec = msgspec.structs.replace(spec, model_id=model_id(self.id, changed.model))
        if system_prompt is not None:
            changed.prompt = parse_prompt(system_prompt, f"agent {self.id!r}: ")
            text = system_prompt if isinstance(system_prompt, str) else ""
            spec = msgspec.structs.replace(spec, system_prompt=text)
            check_texts(spec)
        if tools is not None:
            changed.toolsets = []
            changed.tools = changed._all_tools(tools)
        changed._spec = spec
        return Override(Changed(changed, deps))

    def answer_check(self) -> AnswerCheck | None:
        """How the loop checks this agent's answers; `None` if any text will do."""
        check, shape = self.output_check, self.output
        if check is None:
            return None if shape is None else AnswerCheck(shape.problem)

        async def review(ctx: Any, text: str) -> str | None:
            value = text if shape is None else shape.read(text)
            made = check(ctx, value)
            checked = await made if inspect.isawaitable(made) else made
            if isinstance(checked, Exception):
                raise TypeError(f"output_check returned {checked!r}: raise it instead")
            if checked is None or checked == value:
                return None
            return checked if not isinstance(shape, OutputType) else shape.write(checked)

        return AnswerCheck(_no_problem if shape is None else shape.problem, review)

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
        kind = OwnPlugin if sees_all else OwnRunPlugin
        return kind(self, descriptions or {}, received)

    if not TYPE_CHECKING:  # a type checker knows the names; this is for people without one

        def __getattr__(self, name: str) -> Never:
            raise unknown_attribute(self, name, OF_AGENT)

    def __repr__(self) -> str:
        return f"Agent({self.id!r})"


def _once() -> Any:
    """The module that runs agents without a runtime; it loads the engine, so not before."""
    return importlib.import_module("awaken.runtime.agent_run")


def _no_problem(text: str) -> None:
    """Any text is an answer."""
