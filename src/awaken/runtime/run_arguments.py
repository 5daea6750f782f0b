"""Checking what a caller gives to a run: its request, and the answers to its tickets.

An argument that cannot be used raises a `ConfigError`, which says what to write instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from awaken.core.budget import Budget
from awaken.core.identity import Adapter, Principal
from awaken.core.inference import InferenceOverride
from awaken.core.message import Message, as_messages
from awaken.core.run import RunWaitingTicket
from awaken.core.storable import Count, parse_argument
from awaken.core.store.commands import SubmitMode
from awaken.core.suspension import AskedCall, Decision, Ticket, ToolCallResume
from awaken.core.thread import check_size
from awaken.core.tool import ToolDescriptor
from awaken.errors import ConfigError, InvalidId
from awaken.runtime.agent import Agent
from awaken.runtime.agent_arguments import (
    check_function,
    parse_budget,
    parse_list,
    parse_run_settings,
)
from awaken.runtime.deps import parse_deps_key
from awaken.runtime.remote_agent import RemoteAgent
from awaken.worker.request import WhenBusy

# -- a request --------------------------------------------------------------------------------

Input = str | Message | Iterable[Message | str] | None
"""What a caller gives a run to read."""
_MESSAGES = tuple[Message, ...]


def parse_agent(agent: str | Agent | RemoteAgent | None) -> str | None:
    """The id of the agent that a caller asks for, if it names one.

    Raises:
        ConfigError: it is neither an agent nor an id.
    """
    given: Any = agent
    if isinstance(given, Agent | RemoteAgent):
        return given.id
    if given is not None and not isinstance(given, str):
        raise ConfigError(f"agent is an agent's id, or an Agent, not {given!r}")
    return given


def parse_principal(principal: Principal | None) -> Principal | None:
    """
    Raises:
        ConfigError: it is not a principal, or one of its fields has a wrong type.
    """
    example = "Principal(id='ann')"
    parsed: Principal | None = parse_argument("principal", principal, Principal | None, example)
    if parsed is not None:
        parse_id("principal.id", parsed.id)
    return parsed


# -- answers to tickets -----------------------------------------------------------------------

TicketRef = str | AskedCall
"""A ticket, or its key. The id of a ticket or call is accepted only with a `ToolCallResume` that
has the digest of the question, because an id may come again with another question."""
Reply = bool | ToolCallResume
# Mapping is invariant in its keys: Mapping[AskedCall, Reply] is no Mapping[TicketRef, Reply].
AnswersByTicket = (
    Mapping[TicketRef, Reply]
    | Mapping[str, Reply]
    | Mapping[Ticket, Reply]
    | Mapping[RunWaitingTicket, Reply]
)
"""An answer for each ticket: whether the call may run, or a whole decision."""
OnApproval = Callable[[RunWaitingTicket], Awaitable[Reply] | Reply]


def decisions_of(answers: AnswersByTicket, by: str | None = None) -> tuple[Decision, ...]:
    """
    Raises:
        ConfigError: they are no mapping, a key is neither a ticket nor a text, or a value is not an
            answer.
        InvalidId: a key has a zero character, which not every store can keep.
    """
    given: object = answers
    if not isinstance(given, Mapping):
        raise ConfigError(f"answers are given by ticket, such as {{ticket: True}}, not {given!r}")
    parse_argument("by", by, str | None)
    return tuple(_decision(target, answer, by) for target, answer in answers.items())


def check_handler(on_approval: OnApproval | None) -> None:
    """
    Raises:
        ConfigError: it is no function of a ticket.
    """
    if on_approval is not None:
        check_function(on_approval, "on_approval", takes="the ticket")


async def ask(on_approval: OnApproval, ticket: RunWaitingTicket) -> Decision:
    """Ask the handler about a ticket. Returns its answer, bound to that ticket."""
    answer = on_approval(ticket)
    if inspect.isawaitable(answer):
        answer = await answer
    return _decision(ticket, answer)


def _decision(target: object, answer: object, by: str | None = None) -> Decision:
    if isinstance(target, str):
        parse_id("a key of answers", target)
        return target, _resume(target, answer, by)
    if not isinstance(target, AskedCall):
        raise ConfigError(f"answers are given to a ticket or its key, not to {target!r}")
    decision = _resume(target.ticket_id, answer, by)
    if decision.digest is None:
        # The digest binds the answer to the question that the approver was shown.
        decision = msgspec.structs.replace(decision, digest=target.digest)
    return target.answered_by, decision


def _resume(target: str, answer: object, by: str | None) -> ToolCallResume:
    if isinstance(answer, ToolCallResume):
        parsed: ToolCallResume = parse_argument(f"answers[{target!r}]", answer, ToolCallResume)
        return parsed if by is None else msgspec.structs.replace(parsed, by=by)
    if isinstance(answer, bool):
        return ToolCallResume.approve(by=by) if answer else ToolCallResume.deny(by=by)
    raise ConfigError(
        f"the answer to {target!r} is True, False or a ToolCallResume, not {answer!r}"
    )


# -- single arguments -------------------------------------------------------------------------

W = TypeVar("W", bound=StrEnum)


def parse_id(name: str, id: str | None, type_: Any = str) -> Any:
    """The id of something that exists, or the key of a request.

    Raises:
        ConfigError: it is no text.
        InvalidId: it has a zero character, which not every store can keep.
    """
    given: Any = id
    if isinstance(given, int) and not isinstance(given, bool):
        raise ConfigError(f"{name} is a text, not {given!r}: write {name}={str(given)!r}")
    parsed = parse_argument(name, id, type_)
    if parsed is not None and "\0" in parsed:
        raise InvalidId(parsed, what=f"{name} id" if name == "thread" else name)
    return parsed


def parse_thread(thread: str) -> str:
    """The id that a caller gives for a thread.

    Raises:
        ConfigError: it is no text.
        InvalidId: it is blank, or has a zero character.
    """
    id: str = parse_id("thread", thread)
    if not id.strip():
        raise InvalidId(id)
    return id


def parse_word(name: str, word: str, words: type[W]) -> W:
    """The member of an enumeration that a caller names.

    Raises:
        ConfigError: there is no such word.
    """
    try:
        return words(word)
    except ValueError:
        known = ", ".join(repr(one.value) for one in words)
        raise ConfigError(f"{name} is one of {known}, not {word!r}") from None


def parse_mapping(name: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """A mapping that a caller gave, as a dictionary of its own.

    Raises:
        ConfigError: it is not a mapping.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name} is a mapping, such as {{'name': 'value'}}, not {given!r}")
    return dict(given)


def check_seconds(name: str, seconds: float) -> None:
    """
    Raises:
        ConfigError: it is not a length of time.
    """
    given: Any = seconds
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
        raise ConfigError(f"{name} is a number of seconds from 0 on, not {given!r}")


# -- all options ------------------------------------------------------------------------------


class _Option(NamedTuple):
    """How an option is checked: by `parse`, then as a store reads a value of type `stored` back.
    `field` is its name in the request; an option without a field is not a part of it."""

    field: str | None
    stored: Any = None
    parse: Callable[[Any], Any] | None = None
    may_be_none: bool = True


_OPTIONS = {
    "thread": _Option("thread_id", None, parse_thread),
    "answers": _Option("decisions", tuple[Decision, ...], decisions_of),
    "settings": _Option("settings", InferenceOverride, partial(parse_run_settings, whose="a run")),
    "budget": _Option("budget", Budget, partial(parse_budget, whose="a run")),
    "frontend_tools": _Option(
        "frontend_tools",
        tuple[ToolDescriptor, ...],
        partial(parse_list, what="frontend_tools"),
        may_be_none=False,
    ),
    "user": _Option("user", str | None),
    "labels": _Option("labels", dict[str, str], partial(parse_mapping, "labels")),
    "principal": _Option("principal", None, parse_principal),
    "rewind_to": _Option("rewind_to", str),
    "deps_key": _Option("deps_key", None, parse_deps_key),
    "on_approval": _Option(None, None, check_handler),
    "when_busy": _Option(
        "when_busy", None, partial(parse_word, "when_busy", words=WhenBusy), may_be_none=False
    ),
    "wait": _Option("wait_for_decisions", None, bool),
    "detached": _Option(None),
    "mode": _Option(None, None, partial(parse_word, "mode", words=SubmitMode), may_be_none=False),
    "key": _Option(None, None, partial(parse_id, "key")),
    "not_before_ms": _Option(None, Count | None),
    "state": _Option("state", dict[str, Any], partial(parse_mapping, "state")),
    "forwarded_props": _Option("forwarded_props", Any),
    "adapter": _Option("adapter", Adapter, may_be_none=False),
    "request_id": _Option("transport_request_id", str | None),
}
"""All options of a run, by name; `run_options` has their types."""


def parse_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run as fields of its request, each as it is after it was stored.

    Raises:
        ConfigError: one of them cannot be used, or could not be read back; the text names it.
        InvalidId: an id is blank, or has a zero character.
    """
    fields: dict[str, Any] = {}
    for name, value in options.items():
        option = _OPTIONS[name]
        if value is None and option.may_be_none:
            continue
        if option.parse is not None:
            value = option.parse(value)
        if option.stored is not None:
            value = parse_argument(name, value, option.stored)
        if option.field is not None:
            fields[option.field] = value
    if "user" in fields or "labels" in fields:
        check_size(fields.get("user"), fields.get("labels", {}))
    return fields


def parse_input(input: Input) -> tuple[Message, ...]:
    """The messages for a run, as they are after they were stored.

    Raises:
        ConfigError: one of them could not be read back.
    """
    messages = as_messages(input)
    if not messages:
        return ()
    parsed: tuple[Message, ...] = parse_argument("input", messages, _MESSAGES)
    return messages if parsed == messages else parsed  # large media are not held twice
