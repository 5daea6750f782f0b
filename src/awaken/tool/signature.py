"""Reading a function's signature and docstring, with errors that say how to write a parameter.

The signature says which arguments a model gives. The docstring has the description of the tool and
a text for each parameter; the styles of Google, NumPy and Sphinx are read, and other sections are
left out.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from awaken.core.tool_context import ToolCallContext
from awaken.errors import ConfigError

REQUIRED: Any = inspect.Parameter.empty


# -- parameters -------------------------------------------------------------------------------


class Parameter(msgspec.Struct, frozen=True):
    """One argument that the model gives; `default` is `REQUIRED` if there is none."""

    name: str
    annotation: Any
    default: Any


class Signature(msgspec.Struct, frozen=True):
    """The arguments that the model gives, the name of the context parameter, if there is one, and
    the type of dependencies that its annotation names."""

    parameters: tuple[Parameter, ...]
    context: str | None
    deps: type | None = None


def read_signature(fn: Callable[..., Any], tool: str) -> Signature:
    """The parameters of `fn` that the model fills in, without those that a partial has bound.

    Raises:
        ConfigError: a parameter cannot be given by name as JSON; the text says which and why.
    """
    names = _namespace(fn)
    bound = fn.keywords if isinstance(fn, functools.partial) else {}
    parameters: list[Parameter] = []
    contexts: list[str] = []
    deps: type | None = None
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.name in bound:
            continue
        annotation = _annotation(parameter, names, tool)
        if _is_context(annotation):
            contexts.append(parameter.name)
            deps = _deps_in(annotation)
        else:
            default = _default(parameter, tool)
            parameters.append(Parameter(parameter.name, annotation, default))
    if len(contexts) > 1:
        raise bad_parameter(tool, contexts[1], "is a second context: one is enough")
    return Signature(tuple(parameters), contexts[0] if contexts else None, deps)


def plain_function(fn: object) -> types.FunctionType | None:
    """The function beneath a bound method, a partial or a wrapper; `None` if there is none."""
    while not isinstance(fn, types.FunctionType):
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, types.MethodType):
            fn = fn.__func__
        elif hasattr(fn, "__wrapped__") and not isinstance(fn, type):
            fn = fn.__wrapped__
        else:
            return None
    return fn


def bad_parameter(tool: str, parameter: str, why: object) -> ConfigError:
    return ConfigError(f"tool {tool!r}, parameter {parameter!r}: {why}")


def _namespace(fn: Callable[..., Any]) -> dict[str, Any]:
    """The names that an annotation written as text may use."""
    # Linters move the import of a name that only annotations use under TYPE_CHECKING.
    names: dict[str, Any] = {"ToolCallContext": ToolCallContext, "RunContext": ToolCallContext}
    plain = plain_function(fn)
    while plain is not None and hasattr(plain, "__wrapped__"):  # a decorator has another namespace
        plain = plain_function(plain.__wrapped__)
    if plain is None:
        return names
    names |= plain.__globals__
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    return names


_CONTEXTS = ("ctx", "context", "tool_context", "run_context")
"""Common names of a parameter that takes the call's context."""


def _annotation(parameter: inspect.Parameter, names: dict[str, Any], tool: str) -> Any:
    name, kind = parameter.name, parameter.kind
    if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        why = "stands for any number of arguments: name each one, or take one list or dict"
        raise bad_parameter(tool, name, why)
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        raise bad_parameter(tool, name, "is positional-only, and models name arguments: drop `/`")
    if parameter.annotation is REQUIRED:
        hint = f"annotate it, as in `{name}: str`"
        if name in _CONTEXTS:
            hint = (
                f"write `{name}: ToolCallContext` to get the call's context, or a type, as in "
                f"`{name}: str`, to have the model give it"
            )
        elif name in ("self", "cls"):
            hint = "make the tool from the bound method, as in `tool(instance.method)`"
        raise bad_parameter(tool, name, f"has no type: {hint}")
    holder = types.SimpleNamespace(__annotations__={name: parameter.annotation})
    try:
        # One at a time, so that a return type that exists only for the type checker does no harm.
        return typing.get_type_hints(holder, names, include_extras=True)[name]
    except NameError as error:
        why = f"annotation {parameter.annotation!r} names {error.name!r}, which is not known here"
        fix = "import or define it at the top of the module, not under TYPE_CHECKING"
        raise bad_parameter(tool, name, f"{why}: {fix}") from error
    except Exception as error:
        why = f"annotation {parameter.annotation!r} cannot be read: {error}"
        raise bad_parameter(tool, name, why) from error


def _is_context(annotation: Any) -> bool:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        wanted = [one for one in typing.get_args(annotation) if one is not type(None)]
        return len(wanted) == 1 and _is_context(wanted[0])
    return annotation is ToolCallContext or typing.get_origin(annotation) is ToolCallContext


def _deps_in(annotation: Any) -> type | None:
    """The type of dependencies in `RunContext[Deps]`; `None` if the annotation names none."""
    if typing.get_origin(annotation) is not ToolCallContext:
        return next(filter(None, map(_deps_in, typing.get_args(annotation))), None)
    (deps,) = typing.get_args(annotation)
    return deps if isinstance(deps, type) and deps is not type(None) else None


def _default(parameter: inspect.Parameter, tool: str) -> Any:
    if type(parameter.default).__module__ == "pydantic.fields":
        fix = f"write `{parameter.name}: Annotated[..., Field(...)]`, and the default after `=`"
        raise bad_parameter(tool, parameter.name, f"has a Field as its default: {fix}")
    return parameter.default


# -- docstrings -------------------------------------------------------------------------------

_SECTIONS = (
    "args|arguments|parameters|params|keyword args|keyword arguments|other parameters|returns?|"
    "yields?|raises?|warns?|examples?|notes?|references|see also|attributes|todo"
)
# Compiled when the first docstring is read, and kept by `re`.
_GOOGLE_SECTION = rf"(?i)({_SECTIONS}):\s*$"
_GOOGLE_ENTRY = r"\*{0,2}(\w+)(?:\s*\(.*?\))?\s*:\s*(.*)"
_NUMPY_RULE = r"-{3,}\s*$"
_NUMPY_ENTRY = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
_SPHINX_FIELD = r"(?i):[a-z]+(?:\s[^:]*)?:(?:\s|$)"
_SPHINX_PARAM = (
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)"
)
_ABOUT_PARAMETERS = ("arg", "param", "keyword", "other param")


class Docstring(NamedTuple):
    """The text before the first section, and the text of each parameter."""

    description: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Parse a docstring in any of the three styles."""
    lines = inspect.cleandoc(text or "").splitlines()
    starts = [i for i in range(len(lines)) if _style(lines, i)]
    parameters: dict[str, str] = {}
    for start, end in itertools.pairwise([*starts, len(lines)]):
        parameters |= _section(lines[start:end], _style(lines, start))
    description = lines[: starts[0]] if starts else lines
    return Docstring("\n".join(description).strip(), parameters)


def _style(lines: list[str], i: int) -> str:
    """The style of the section that begins at line `i`; empty if none does."""
    line, after = lines[i], lines[i + 1 : i + 2]
    if re.match(_SPHINX_FIELD, line):
        return "sphinx"
    if line.strip() and after and re.match(_NUMPY_RULE, after[0]):
        return "numpy"
    if re.match(_GOOGLE_SECTION, line):
        body = next((other for other in lines[i + 1 :] if other.strip()), "")
        return "google" if body.startswith((" ", "\t")) else ""
    return ""


def _section(lines: list[str], style: str) -> dict[str, str]:
    """The texts of the parameters in one section; empty if it is about something else."""
    if style == "sphinx":
        found = re.match(_SPHINX_PARAM, lines[0])
        return {found[1]: _join_lines([found[2], *_until_blank(lines[1:])])} if found else {}
    if not lines[0].strip().lower().startswith(_ABOUT_PARAMETERS):
        return {}
    if style == "numpy":
        return _entries(lines[2:], _NUMPY_ENTRY)
    body = [line for line in lines[1:] if not line or line.startswith((" ", "\t"))]
    return _entries(textwrap.dedent("\n".join(body)).splitlines(), _GOOGLE_ENTRY)


def _entries(lines: list[str], entry: str) -> dict[str, str]:
    """The entries of a section. An entry starts at the margin; indented lines below belong to
    it."""
    texts: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        found = None if line.startswith((" ", "\t")) else re.match(entry, line)
        if found is None:
            current.append(line)
            continue
        current = list(found.groups()[1:])
        for name in found[1].split(","):
            texts[name.strip().lstrip("*")] = current
    return {name: _join_lines(text) for name, text in texts.items() if _join_lines(text)}


def _until_blank(lines: list[str]) -> list[str]:
    return lines[: next((i for i, line in enumerate(lines) if not line.strip()), len(lines))]


def _join_lines(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
