"""Tool sets: tools that are combined, filtered, renamed and guarded together, or made by run."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple, overload

from awaken.core.deps import RunInfo
from awaken.core.tool import ToolEffect
from awaken.core.tool_context import Tool
from awaken.errors import ConfigError, ToolIdConflict, ToolsetFailed, describe
from awaken.tool.function import check_name, is_name, parse_word, tool_of
from awaken.tool.toolset_tool import SetTool

Tools = Iterable[Tool | Callable[..., Any]]
ToolsFor = Callable[[RunInfo], Tools | Awaitable[Tools]]
"""Makes the tools of a set for one run, async or not."""
Condition = Callable[[RunInfo], bool | Awaitable[bool]]
Change = Callable[[SetTool], SetTool | None]
"""The tool as the changed set offers it; `None` if that set leaves it out."""

log = logging.getLogger("awaken.tool")


class _Part(NamedTuple):
    """The tools of one set: the same in every run, or made in each run by `ask`.

    `changes` are applied to the tools that `ask` returns. The tools are offered in a run if all
    `conditions` are true for it.
    """

    set: str
    tools: tuple[SetTool, ...] = ()
    ask: ToolsFor | None = None
    changes: tuple[Change, ...] = ()
    conditions: tuple[Condition, ...] = ()
    required: bool = True

    @property
    def is_dynamic(self) -> bool:
        return self.ask is not None or bool(self.conditions)

    def changed(self, change: Change) -> _Part:
        tools = tuple([new for tool in self.tools if (new := change(tool)) is not None])
        return self._replace(tools=tools, changes=(*self.changes, change))

    async def load_tools(self, run: RunInfo) -> tuple[SetTool, ...]:
        for condition in self.conditions:
            if not await _await_if_needed(condition(run)):
                return ()
        if self.ask is None:
            return self.tools
        made: Any = await _await_if_needed(self.ask(run))
        if isinstance(made, str) or not isinstance(made, Iterable):
            raise ConfigError(f"it returned {made!r}, not a list of tools")
        part = self._replace(tools=_members(self.set, made), changes=())
        for change in self.changes:
            part = part.changed(change)
        return part.tools


class Toolset:
    """Tools under one name, given to an agent as `Agent(tools=[…, Toolset("crm", […])])`.

    Each method returns a new set; neither this one nor its tools change. Patterns are names of
    tools, with `*` and `?` for any letters.

    Args:
        name: the name of the set in errors, and in patterns such as `set:crm`.
        tools: functions, or tools made from them.

    Raises:
        ConfigError: something is not a tool, two tools have one name, or a method names a tool that
            is not in the set.
    """

    def __init__(self, name: str, tools: Tools) -> None:
        self.name = _check_set_name(name)
        self._parts: tuple[_Part, ...] = (_Part(name, _members(name, tools)),)
        _check_unique(self.tools)

    # -- which tools --------------------------------------------------------------------------

    def only(self, *patterns: str) -> Toolset:
        """The tools whose names match a pattern, and no others."""
        return self._with(lambda tool: tool if _matches(tool, patterns) else None, patterns)

    def without(self, *patterns: str) -> Toolset:
        """The tools whose names match none of the patterns."""
        return self._with(lambda tool: None if _matches(tool, patterns) else tool, patterns)

    def when(self, condition: Condition) -> Toolset:
        """These tools in runs for which `condition`, a function of the run's `RunInfo`, async or
        not, returns true, and no tools in other runs. It is called once in each run."""
        parts = [part._replace(conditions=(*part.conditions, condition)) for part in self._parts]
        return self._of(self.name, parts)

    def __add__(self, other: Toolset) -> Toolset:
        """The tools of both sets. A tool that both offer in the same way is there once."""
        if not isinstance(other, Toolset):
            return NotImplemented
        existing, more = self.tools, []
        for part in other._parts:
            if not part.is_dynamic:
                new = [
                    tool for tool in part.tools if not any(tool.is_like(one) for one in existing)
                ]
                part = part._replace(tools=tuple(new))
            more.append(part)
        return self._of(f"{self.name}+{other.name}", [*self._parts, *more])

    # -- how they are offered -----------------------------------------------------------------

    def prefixed(self, prefix: str) -> Toolset:
        """The tools under names that begin with `prefix`."""
        return self._with(lambda tool: tool.changed(id=check_name(prefix + tool.id)))

    def renamed(self, names: Mapping[str, str]) -> Toolset:
        """The tools under other names, by their names so far."""
        new = {old: check_name(name) for old, name in names.items()}
        return self._with(
            lambda tool: tool.changed(id=new[tool.id]) if tool.id in new else tool, names
        )

    def described(self, texts: Mapping[str, str]) -> Toolset:
        """The tools with other descriptions for the model, by name."""
        descriptions = dict(texts)
        return self._with(
            lambda tool: (
                tool.changed(description=descriptions[tool.id]) if tool.id in descriptions else tool
            ),
            descriptions,
        )

    def asking(self, *patterns: str) -> Toolset:
        """The tools, whose calls ask an approver first; with patterns, only those of matching tools
        do."""
        chosen = patterns or ("*",)
        return self._with(
            lambda tool: tool.changed(asks=True) if _matches(tool, chosen) else tool, chosen
        )

    def effects(self, effects: Mapping[str, str]) -> Toolset:
        """The tools with other effects (`read`, `idempotent` or `once`), by pattern: for tools from
        elsewhere that do not declare one. The last pattern that matches counts."""
        parsed = {p: parse_word(self.name, "effect", e, ToolEffect) for p, e in effects.items()}

        def change(tool: SetTool) -> SetTool:
            found = [effect for pattern, effect in parsed.items() if _matches(tool, (pattern,))]
            return tool.changed(effect=found[-1]) if found else tool

        return self._with(change, parsed)

    def timeout(self, seconds: float) -> Toolset:
        """The tools, with at most that many seconds for a call."""
        if not seconds > 0:
            raise ConfigError(f"toolset {self.name!r}: timeout {seconds!r} is not above 0 seconds")
        return self._with(lambda tool: tool.changed(timeout=seconds))

    # -- the tools for an agent ------------------------------------------------------------------

    @property
    def tools(self) -> tuple[SetTool, ...]:
        """The tools that are the same in every run."""
        return tuple([tool for part in self._parts if not part.is_dynamic for tool in part.tools])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools that are the same in every run."""
        return tuple([tool.id for tool in self.tools])

    @property
    def is_dynamic(self) -> bool:
        """Whether some of the tools are made when a run begins."""
        return any(part.is_dynamic for part in self._parts)

    async def load_tools(self, run: RunInfo) -> list[SetTool]:
        """The tools for one run, without those that are the same in every run.

        Raises:
            ToolsetFailed: a function of the set raised, or did not return tools.
        """
        offered: list[SetTool] = []
        for part in self._parts:
            if not part.is_dynamic:
                continue
            try:
                offered += await part.load_tools(run)
            except Exception as error:
                failed = ToolsetFailed(part.set, describe(error))
                if part.required:
                    raise failed from error
                log.warning("run %s: %s; it starts without these tools", run.run_id, failed)
        return offered

    def __repr__(self) -> str:
        return f"Toolset({self.name!r}, {list(self.names)})"

    # -- making another set -------------------------------------------------------------------

    def _with(self, change: Change, named: Iterable[str] = ()) -> Toolset:
        if not self.is_dynamic:
            available = self.names
            for name in named:
                if not set(name) & set("*?[") and name not in available:
                    raise ConfigError(
                        f"toolset {self.name!r} has no tool {name!r}: it has "
                        f"{', '.join(map(repr, available)) or 'none'}"
                    )
        return self._of(self.name, [part.changed(change) for part in self._parts])

    @classmethod
    def _of(cls, name: str, parts: Iterable[_Part]) -> Toolset:
        made = cls.__new__(cls)
        made.name, made._parts = name, tuple(parts)
        _check_unique(made.tools)
        return made


@overload
def toolset(fn: ToolsFor, /) -> Toolset: ...
@overload
def toolset(*, name: str | None = None, required: bool = True) -> Callable[[ToolsFor], Toolset]: ...
def toolset(fn: Any = None, /, *, name: str | None = None, required: bool = True) -> Any:
    """A set whose tools a function returns for each run, async or not: `@toolset`.

    The function takes a `RunInfo` (user, labels, thread, …). It is called once when a run
    begins, and once more when another process recovers the run.

    Args:
        name: the name of the set; by default the function's.
        required: if the function raises, the run does not start, and `ToolsetFailed` is raised.
            With `required=False` the run starts without these tools, and that is logged.
    """
    if fn is None:
        return partial(toolset, name=name, required=required)
    set_name = _check_set_name(str(name or getattr(fn, "__name__", "toolset")))
    try:
        inspect.signature(fn).bind(None)
    except TypeError as error:
        raise ConfigError(f"toolset {set_name!r} is a function of the run: {error}") from error
    return Toolset._of(set_name, [_Part(set_name, ask=fn, required=required)])


async def load_toolset_tools(
    sets: Iterable[Toolset], run: RunInfo, existing: Mapping[str, Tool]
) -> dict[str, Tool]:
    """The tools that sets offer in one run, by name and in the order of names.

    Raises:
        ToolsetFailed: the function of a required set failed.
        ToolIdConflict: a name is taken, by another set or by one of the `existing` tools.
    """
    found: dict[str, SetTool] = {}
    for one in sets:
        for tool in await one.load_tools(run):
            other = found.get(tool.id)
            if isinstance(other, SetTool) and tool.is_like(other):
                continue
            taken = other or existing.get(tool.id)
            if taken is not None:
                raise ToolIdConflict(
                    tool.id, f"{where_from(taken)} and {where_from(tool)}", in_sets=True
                )
            found[tool.id] = tool
    return {name: found[name] for name in sorted(found)}


def where_from(tool: Tool) -> str:
    """The origin of a tool, for an error: its set, or the agent."""
    own = isinstance(tool, SetTool) and tool.set
    return f"toolset {own!r}" if own else "the agent's other tools"


def _check_set_name(name: str) -> str:
    if not is_name(name):
        raise ConfigError(
            f"{name!r} cannot be a toolset's name: give one of letters, digits, `_`, `-`, `.` and "
            "`:`, as in Toolset('crm', […]) or @toolset(name='crm')"
        )
    return name


def _members(name: str, tools: Tools) -> tuple[SetTool, ...]:
    given: Any = tools
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"toolset {name!r} is made of a list of tools, not {given!r}")
    return tuple([SetTool.of(tool_of(f"toolset {name!r}", tool), name) for tool in given])


def _check_unique(tools: Iterable[SetTool]) -> None:
    existing: dict[str, SetTool] = {}
    for tool in tools:
        other = existing.setdefault(tool.id, tool)
        if other is not tool:
            raise ConfigError(
                f"{where_from(other)} and {where_from(tool)} both have a tool named {tool.id!r}: "
                "rename one with renamed({…}), or all of a set with prefixed('…')"
            )


def _matches(tool: SetTool, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(tool.id, pattern) for pattern in patterns)


async def _await_if_needed(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer
