"""Errors for calls of a runtime's methods that do not fit: Python's text, and what to write."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from awaken.runtime.hints import SETTINGS, near
from awaken.runtime.run_options import Method

if TYPE_CHECKING:
    import msgspec

Holder = type["msgspec.Struct"]
"""The type of an argument, whose fields people give to a method by mistake."""

_OF_A_RUN = {
    "prompt": "input",
    "user_prompt": "input",
    "messages": "input",
    "message_history": "thread='…', which keeps the conversation, or a list of messages as input",
    "session": "thread='…'",
    "session_id": "thread='…'",
    "thread_id": "thread='…'",
    "conversation_id": "thread='…'",
    "context": "deps=…",
    "deps": "deps_key=…",
    "dependencies": "deps=…",
    "overrides": "settings=ModelSettings(…)",
    "model_settings": "settings=ModelSettings(…)",
    "usage_limits": "budget=Budget(…)",
    "max_turns": "Agent(…, max_rounds=…)",
    "max_rounds": "Agent(…, max_rounds=…)",
    "output_type": "Agent(…, output=…)",
    "output": "Agent(…, output=…)",
    "model": "with agent.override(model=…): …",
    "user_id": "user=…",
    "metadata": "labels={…}",
    "tags": "labels={…}",
    "stream": "runtime.stream(…)",
    "instructions": "with agent.override(system_prompt=…): …",
    "system_prompt": "with agent.override(system_prompt=…): …",
    "tools": "with agent.override(tools=[…]): …",
    "callbacks": "Agent(…, plugins=[…]), or runtime.stream(…) and read its events",
    "config": "the options themselves, such as thread='…' and settings=ModelSettings(…)",
    "by": "principal=Principal(id=…)",
    **{name: f"settings=ModelSettings({name}=…)" for name in SETTINGS},
}
"""Arguments of `run`, `stream` and `submit` as people guess them, and what to write here."""
_PRINCIPAL = "principal=Principal(id=…)"
_OF_A_METHOD: dict[str, tuple[str, ...]] = {
    "by": (_PRINCIPAL,),
    "user_id": ("user", _PRINCIPAL),
    "user": (_PRINCIPAL,),
    "thread_id": ("thread", "id"),
    "thread": ("id",),
    "run_id": ("id",),
    "run": ("run_id", "id"),
    "id": ("thread", "run_id"),
    "text": ("input",),
    "message": ("input",),
    "reason": (
        "answers={ticket: ToolCallResume.deny('…')}",
        f"{_PRINCIPAL}: who did it is kept, a reason is not",
    ),
}
"""Arguments of a runtime's other methods as people guess them, and what to write instead: the first
that the method takes."""
_OF_A_RUNTIME = {
    "agent": ("agents",),
    **dict.fromkeys(("checkpointer", "storage", "session", "db"), ("store='sqlite:///awaken.db'",)),
}
_EXAMPLES = {
    "id": "run_id",
    "answers": "{ticket: True}",
    "input": "'Hello'",
    "patch": "ThreadPatch(title='Holidays')",
    "older_than": "timedelta(days=30)",
    "arguments": "{'name': 'value'}",
    "agents": "[agent]",
}
"""What to write for arguments that have to be given; others are shown by their names."""


def with_hints(method: Method, holder: Holder | None = None) -> Method:
    """The method, whose errors about a call that does not fit its arguments say what to write. A
    call that fits costs one more function call; only the names of options are checked before it."""
    takes_options = "__signature__" in vars(method)
    known = frozenset(inspect.signature(method).parameters) if takes_options else None

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        if known is not None and not known.issuperset(named):
            raise _wrong_call(method, "", named, holder)
        try:
            return method(*args, **named)
        except TypeError as error:
            trace = error.__traceback__
            if trace is not None and trace.tb_next is not None:
                raise  # the method was called, and raised it
            raise _wrong_call(method, str(error), named, holder) from None

    if inspect.iscoroutinefunction(method):
        # Web frameworks call an async function otherwise than a plain one.
        mark: Any = getattr(inspect, "markcoroutinefunction", None)
        if mark is not None:
            mark(call)
        else:  # Python 3.11
            vars(call)["_is_coroutine"] = vars(asyncio.coroutines)["_is_coroutine"]
    return cast("Method", call)


def _wrong_call(
    method: Callable[..., Any], told: str, named: Iterable[str], holder: Holder | None
) -> TypeError:
    """The error for a call that Python refused with the text `told`."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    known = [one.name for one in parameters]
    unknown = next((name for name in named if name not in known), None)
    called = method.__qualname__
    if unknown is not None:
        told = f"{called}() got an unexpected keyword argument {unknown!r}"
        meant = _suggest(called, unknown, known, holder)
        if meant is not None:
            return TypeError(f"{told}: write {meant}")
        return TypeError(f"{told}: it takes {', '.join(known) or 'no arguments'}")
    by_name = [f"{one.name}=…" for one in parameters if one.kind is one.KEYWORD_ONLY]
    if " positional argument" in told and " were given" in told and by_name:
        return TypeError(f"{told}: give {', '.join(by_name)} by name")
    needed = [_example(method, one) for one in parameters if one.default is one.empty]
    return TypeError(f"{told}: write {_render_call(called)}({', '.join(needed)})")


def _render_call(called: str) -> str:
    """How a method is written in a program."""
    return called.replace("Runtime.", "runtime.").replace("Agent.", "agent.")


def _example(method: Callable[..., Any], parameter: inspect.Parameter) -> str:
    if method.__name__ == "reads":
        return "runtime.agents[0]"
    example = _EXAMPLES.get(parameter.name, parameter.name)
    is_named = parameter.kind is parameter.KEYWORD_ONLY
    return f"{parameter.name}={example}" if is_named else example


def _suggest(called: str, name: str, known: list[str], holder: Holder | None) -> str | None:
    """What to write instead of an argument that a method does not take; `None` if unknown."""
    fields = () if holder is None else holder.__struct_fields__
    guesses: Iterable[str] = _OF_A_METHOD.get(name, ())
    if "thread" in known and "input" in known:
        guesses = (_OF_A_RUN[name],) if name in _OF_A_RUN else ()
    elif called == "Runtime":
        guesses = _OF_A_RUNTIME.get(name, ())
    for guess in (name, *guesses):
        if holder is not None and guess in fields:
            return f"{holder.__name__}({guess}=…)"
    for guess in guesses:
        argument = re.match(r"(\w+)(=|$)", guess)
        if argument is None or argument[1] in known:
            return guess
    close = near(name, known)
    if close is None and holder is not None:
        field = near(name, fields)
        return None if field is None else f"{holder.__name__}({field}=…)"
    return close


def name_methods(owner: type, parts: Iterable[type], holders: Mapping[str, Holder]) -> None:
    """Give the methods of the parts a class is made of the name of that class, which Python shows
    in its errors about arguments and in its warning about a missing `await`, and hints for calls
    with wrong arguments.

    Args:
        holders: by a method's name, the type of the argument that holds further values.
    """
    for part in parts:
        for name, method in list(vars(part).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                method.__qualname__ = f"{owner.__name__}.{name}"
                setattr(part, name, with_hints(method, holders.get(name)))
    kind: Any = owner
    kind.__init__.__qualname__ = kind.__name__
    kind.__init__ = with_hints(kind.__init__)
