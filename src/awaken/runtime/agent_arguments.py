"""Checking what a user gives to an agent: its model, prompt, tools, plugins, budget and settings.

An argument that cannot be used raises a `ConfigError`, which says what to write instead.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from awaken.codec import dumps
from awaken.core.budget import Budget, Price
from awaken.core.inference import (
    ContextWindowPolicy,
    InferenceOverride,
    ModelSettings,
    effort_problem,
)
from awaken.core.spec import AgentSpec, ContentMatch, ModelPoolSpec, ToolExecutorKind
from awaken.core.storable import UNWRITABLE, parse_argument
from awaken.core.tool_context import Tool
from awaken.errors import ConfigError
from awaken.plugin.hook import Plugin
from awaken.runtime.open_by_name import as_pool
from awaken.tool import FunctionTool
from awaken.tool.function import tool_of
from awaken.tool.toolset import Toolset, where_from
from awaken.tool.toolset_tool import SetTool

if TYPE_CHECKING:
    from awaken.core.llm import LlmExecutor

log = logging.getLogger("awaken.tool")
T = TypeVar("T")
GivenTool = Tool | Callable[..., Any] | Toolset


# -- model and prompt -------------------------------------------------------------------------


def parse_model(id: Any, model: Any) -> str | LlmExecutor | ModelPoolSpec:
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


def model_id(id: str, model: str | LlmExecutor | ModelPoolSpec) -> str:
    if isinstance(model, str):
        return model
    return model.id if isinstance(model, ModelPoolSpec) else f"{id}.model"


def parse_prompt(prompt: Any, mine: str) -> Callable[..., Any] | None:
    """The function that writes the prompt; `None` if the prompt is a text.

    Raises:
        ConfigError: it is neither a text nor a function of the run's context.
    """
    if isinstance(prompt, str):
        return None
    if not callable(prompt):
        raise ConfigError(
            f"{mine}system_prompt is a text or a function of the run's context, not {prompt!r}"
        )
    check_function(prompt, f"{mine}system_prompt", takes="the run's context")
    write: Callable[..., Any] = prompt
    return write


# -- tools ------------------------------------------------------------------------------------


def tools_of(
    owner: str, items: Iterable[GivenTool], sets: list[Toolset] | None = None
) -> list[Tool]:
    """The items as tools: a function is made into one, a set brings those that are the same in
    every run. Sets that have further tools are added to `sets`.

    Raises:
        ConfigError: an item is not a tool, or is such a set and there is no list of sets.
    """
    given: Any = items
    # A name alone is treated as an item: "is not a tool" says more than "is not a list".
    each: Iterable[Any] = (
        [given] if isinstance(given, str) else parse_list(given, f"{owner}: tools")
    )
    tools: list[Tool] = []
    for item in each:
        if not isinstance(item, Toolset):
            tools.append(tool_of(owner, item))
            continue
        tools += item.tools
        if item.is_dynamic:
            if sets is None:
                raise ConfigError(
                    f"{owner}: the tools of toolset {item.name!r} differ from run to run: give it "
                    "to the agents that use it"
                )
            sets.append(item)
    for one in tools:
        if not one.descriptor().description:
            log.warning(
                "%s: tool %r has no description: write a docstring", owner, one.descriptor().id
            )
    return tools


def check_names(tools: Sequence[Tool], owner: str) -> None:
    counted = Counter(tool.descriptor().id for tool in tools)
    for name in (name for name, count in counted.items() if count > 1):
        homes = [where_from(tool) for tool in tools if tool.descriptor().id == name]
        if len(set(homes)) > 1:
            raise ConfigError(
                f"{owner} has two tools named {name!r}, from {' and '.join(homes)}: rename one, as "
                "in tool(function, name='…') or toolset.prefixed('…')"
            )
        raise ConfigError(
            f"{owner} has two tools named {name!r}: leave one out, or rename one, as in "
            "tool(function, name='…')"
        )


def parse_tool_executor(
    sequential: bool | Iterable[str], executor: ToolExecutorKind | None, mine: str
) -> ToolExecutorKind:
    if sequential and executor not in (None, ToolExecutorKind.SEQUENTIAL):
        raise ConfigError(f"{mine}give either sequential or tool_executor")
    chosen = ToolExecutorKind.SEQUENTIAL if sequential is True else executor
    return chosen or ToolExecutorKind.PARALLEL_STREAMING


def one_at_a_time(tools: Iterable[Tool], patterns: Sequence[str]) -> list[Tool]:
    """The tools, with those that match a pattern sequential: none of their calls runs at the same
    time as another call."""
    chosen: list[Tool] = []
    for tool in tools:
        if any(tool.descriptor().matches(pattern) for pattern in patterns):
            tool = (tool if isinstance(tool, SetTool) else SetTool.of(tool, None)).changed(
                sequential=True
            )
        chosen.append(tool)
    return chosen


# -- dependencies -----------------------------------------------------------------------------


def parse_deps_type(deps: Any, mine: str) -> type | None:
    """
    Raises:
        ConfigError: it is not a class whose instances can be told.
    """
    if deps is None:
        return None
    if not isinstance(deps, type):
        raise ConfigError(
            f"{mine}deps is the class of its dependencies, as in deps={type(deps).__name__}; the "
            "value itself goes to run(…, deps=…)"
        )
    try:
        isinstance(None, deps)
    except TypeError as error:
        raise ConfigError(
            f"{mine}deps is a class such as a dataclass; {deps.__name__} cannot be one ({error})"
        ) from error
    return deps


def check_deps_of(tools: Iterable[Tool], deps: type | None, mine: str) -> None:
    """
    Raises:
        ConfigError: a tool wants other dependencies than the agent has.
    """
    for tool in tools:
        wanted = tool.deps if isinstance(tool, FunctionTool | SetTool) else None
        if wanted is None or (deps is not None and issubclass(deps, wanted)):
            continue
        has = "has none" if deps is None else f"has {deps.__name__}"
        raise ConfigError(
            f"{mine}tool {tool.descriptor().id!r} wants dependencies of type {wanted.__name__}, "
            f"and the agent {has}: write deps={wanted.__name__}"
        )


# -- plugins and handoffs ---------------------------------------------------------------------


def parse_plugins(plugins: Iterable[Plugin], mine: str) -> tuple[Plugin, ...]:
    given = parse_list(plugins, mine + "plugins")
    for plugin in given:
        check_plugin(plugin, mine)
    return given


def check_plugin(plugin: Any, mine: str) -> None:
    if isinstance(plugin, type):
        raise ConfigError(f"{mine}{plugin.__name__} is a class, not a plugin; give an instance")
    if not isinstance(getattr(plugin, "id", None), str):
        raise ConfigError(f"{mine}plugin {plugin!r} has no id: give it one, as in id = 'mine'")
    if not callable(getattr(plugin, "register", None)):
        raise ConfigError(f"{mine}plugin {plugin.id!r} has no register(registrar) method")
    if inspect.iscoroutinefunction(plugin.register):
        raise ConfigError(f"{mine}register of plugin {plugin.id!r} is async; write `def register`")


def parse_max_handoffs(count: int, mine: str) -> int:
    if count < 1:
        raise ConfigError(f"{mine}max_handoffs is 1 or more, not {count}")
    return count


# -- budget, prices and settings --------------------------------------------------------------


def parse_budget(budget: Budget | None, whose: str) -> Budget | None:
    """
    Raises:
        ConfigError: it is not a budget, or its limits make no sense.
    """
    given: Any = budget
    if given is None:
        return None
    if not isinstance(given, Budget):
        raise ConfigError(
            f"{whose}: budget is a Budget, such as Budget(tokens=10_000), not {given!r}"
        )
    if (problem := given.problem()) is not None:
        raise ConfigError(f"{whose}: {problem}")
    return given


def parse_prices(prices: Mapping[str, Price]) -> dict[str, Price]:
    """
    Raises:
        ConfigError: one of them is not a price.
    """
    for model, price in prices.items():
        given: Any = price
        if not isinstance(given, Price):
            raise ConfigError(
                f"the price of model {model!r} is a Price, such as Price(input=1, output=4) per "
                f"million tokens, not {given!r}"
            )
    return dict(prices)


def parse_settings(settings: ModelSettings | None, whose: str) -> ModelSettings | None:
    """
    Raises:
        ConfigError: they are not settings, or one of them makes no sense.
    """
    given: Any = settings
    if given is None:
        return None
    if not isinstance(given, ModelSettings):
        raise ConfigError(
            f"{whose}: settings are ModelSettings, such as ModelSettings(temperature=0.2), not "
            f"{given!r}"
        )
    if (problem := given.problem()) is not None:
        raise ConfigError(f"{whose}: {problem}")
    return given


def parse_agent_settings(settings: ModelSettings | None, whose: str) -> ModelSettings | None:
    """
    Raises:
        ConfigError: they are not settings of an agent, whose model is an argument of its own.
    """
    given: Any = settings
    if isinstance(given, InferenceOverride):
        raise ConfigError(
            f"{whose}: settings are ModelSettings, such as ModelSettings(temperature=0.2), not "
            f"{given!r}"
        )
    return parse_settings(settings, whose)


def parse_run_settings(settings: ModelSettings | None, whose: str) -> InferenceOverride | None:
    """The settings of a run, which may name another model.

    Raises:
        ConfigError: they are not settings, or one of them makes no sense.
    """
    parsed = parse_settings(settings, whose)
    if parsed is None or isinstance(parsed, InferenceOverride):
        return parsed
    return InferenceOverride().merge(parsed)


# -- the whole spec ---------------------------------------------------------------------------


def check_spec(spec: AgentSpec) -> None:
    """
    Raises:
        ConfigError: a field does not fit its type; the text names both.
    """
    check_texts(spec)
    check_effort(spec)
    policy: Any = spec.context_policy
    if policy is not None and not isinstance(policy, ContextWindowPolicy):
        raise ConfigError(
            f"agent {spec.id!r}: context_policy is a ContextWindowPolicy, as in "
            f"ContextWindowPolicy.of(200_000), not {policy!r}"
        )
    try:
        msgspec.convert(msgspec.to_builtins(spec), AgentSpec)
    except (msgspec.ValidationError, TypeError) as error:
        raise ConfigError(f"agent {spec.id!r}: {error}") from error
    if spec.context_policy is not None:
        check_policy(spec.context_policy, f"agent {spec.id!r}: context_policy.")
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


def check_texts(spec: AgentSpec) -> None:
    """
    Raises:
        ConfigError: a text has half of a surrogate pair; the error names the field.
    """
    try:
        dumps(spec)
    except UnicodeEncodeError:
        try:
            parse_argument("", spec, AgentSpec)
        except ConfigError as error:
            raise ConfigError(f"agent {spec.id!r}: {error}") from None
    except UNWRITABLE:
        pass  # `check_spec` says more


def check_effort(spec: AgentSpec) -> None:
    """
    Raises:
        ConfigError: the reasoning effort is unknown; the text lists the known ones.
    """
    if (problem := effort_problem(spec.reasoning_effort)) is not None:
        raise ConfigError(f"agent {spec.id!r}: {problem}")


def check_policy(policy: ContextWindowPolicy, mine: str) -> None:
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


# -- any argument -----------------------------------------------------------------------------


def parse_text(text: Any, what: str) -> str:
    """
    Raises:
        ConfigError: it is no text.
    """
    if not isinstance(text, str):
        raise ConfigError(f"{what} is a text, not {text!r}: write {what}={str(text)!r}")
    return text


def parse_list(items: Iterable[T], what: str) -> tuple[T, ...]:
    """The items of a list that a user passed, as a tuple.

    Raises:
        ConfigError: the argument is a single item; a text would be split into its letters.
    """
    given: Any = items
    if isinstance(given, str) or not isinstance(given, Iterable):
        one = given.__name__ if inspect.isfunction(given) else repr(given)
        raise ConfigError(f"{what} is a list, not {one}: write [{one}]")
    return tuple(items)


_PARAMETERS = {
    "the run's context": "ctx",
    "the value": "value",
    "the run": "run",
    "the dependencies above": "deps",
    "the ticket": "ticket",
}
"""What functions of a user's get, and how a parameter for it is usually named."""


def check_function(fn: Any, what: str, *, takes: str) -> None:
    """Check that a function can be called with what it gets; `takes` names that.

    Raises:
        ConfigError: it cannot.
    """
    if not callable(fn):
        raise ConfigError(f"{what} is a function of {takes}, not {fn!r}")
    names = [_PARAMETERS[each] for each in takes.split(", ")]
    try:
        inspect.signature(fn).bind(*names)
    except TypeError as error:
        write = f"write lambda {', '.join(names)}: …"
        raise ConfigError(f"{what} is a function of {takes}: {error}: {write}") from error
    except ValueError:
        return  # a builtin without a signature
