"""Conversations that were kept with another library, as messages of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from awaken.core.message import Message, Role
from awaken.errors import ConfigError
from awaken.models.history import anthropic, openai, pydantic_ai
from awaken.models.history.parts import Item

Dialect = Literal["openai", "anthropic", "pydantic-ai"]

_READERS: Mapping[str, Callable[[Iterable[Item]], Iterator[Message]]] = {
    "openai": openai.read,
    "anthropic": anthropic.read,
    "pydantic-ai": pydantic_ai.read,
}


def import_history(messages: str | bytes | Iterable[Any], dialect: Dialect) -> list[Message]:
    """A conversation that another library has kept, as messages to begin a thread with:
    `runtime.run("helper", [*import_history(old, "openai"), "And now?"], thread="ann")`.

    Left out are system prompts, since the agent has its own, the model's reasoning, and what a
    provider's own tools did.

    Args:
        messages: the messages in order, as plain data, as objects of the other library, or as JSON
            text.
        dialect: `openai` for Chat Completions and for Responses (also what the OpenAI Agents SDK
            returns as `to_input_list()`), `anthropic` for Messages, `pydantic-ai` for
            `all_messages()` and `all_messages_json()`.

    Raises:
        ConfigError: a message cannot be read, or a call and its result do not belong together. The
            text names the message, and says what to do.
    """
    read = _READERS.get(dialect)
    if read is None:
        raise ConfigError(
            f"dialect is one of {', '.join(map(repr, _READERS))}, not {dialect!r}: messages of "
            "other libraries can be written as OpenAI's first"
        )
    found = list(read(_items(messages)))
    _check_calls(found)
    return found


def _items(messages: str | bytes | Iterable[Any]) -> Iterator[Item]:
    given: Any = messages
    if isinstance(given, str | bytes):
        try:
            given = msgspec.json.decode(given)
        except msgspec.DecodeError as error:
            raise ConfigError(f"the history is text, but not JSON: {error}") from error
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise ConfigError(
            f"the history is a list of messages, or such a list as JSON text, not {given!r}"
        )
    for index, one in enumerate(given):
        where = f"message {index} of the history"
        try:
            data = msgspec.to_builtins(one, enc_hook=_plain)
        except (TypeError, NotImplementedError) as error:
            raise ConfigError(f"{where} is {type(one).__name__}, not data: {error}") from error
        if not isinstance(data, dict):
            raise ConfigError(f"{where} is {data!r}, not a message of another library")
        yield Item(cast("dict[str, Any]", data), where)


def _plain(value: Any) -> Any:
    """The data of a pydantic model, of which the SDKs' messages are made."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise NotImplementedError(f"{type(value).__name__} has no model_dump()")
    return dump(mode="json", exclude_none=True)


def _check_calls(messages: Iterable[Message]) -> None:
    """
    Raises:
        ConfigError: a call has no result before the conversation goes on, or a result no call.
    """
    open_calls: dict[str, str] = {}
    for message in messages:
        if message.role is Role.TOOL:
            if open_calls.pop(message.tool_call_id or "", None) is None:
                raise ConfigError(
                    f"the history has a result for the call {message.tool_call_id!r}, which is not "
                    "in it, or has a result already: import the conversation from its beginning"
                )
            continue
        _check_none_open(open_calls)
        open_calls = {call.id: call.name for call in message.tool_calls or ()}
    _check_none_open(open_calls)


def _check_none_open(calls: Mapping[str, str]) -> None:
    for id, name in calls.items():
        raise ConfigError(
            f"the call {id!r} of {name!r} has no result in the history: add one, or leave the "
            "message with the call out"
        )
