"""Tools, calls and content in requests, in the forms that most providers accept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from awaken.codec import Json, digest
from awaken.core.llm import InvalidRequest
from awaken.core.tool import ToolDescriptor

MAX_NAME = 64


def wire_name(name: str, most: int = MAX_NAME) -> str:
    """A name or id in the characters that the APIs accept; deterministic and unique."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", name) and len(name) <= most:
        return name
    letters = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return f"{letters[: most - 17]}_{digest(name)[:16]}"


def original_names(
    tools: Iterable[ToolDescriptor], wire: Callable[[str], str] = wire_name
) -> dict[str, str]:
    """The tools' original names by their names in the request, for names that had to be changed."""
    return {name: tool.id for tool in tools if (name := wire(tool.id)) != tool.id}


def call_input(arguments: Json) -> dict[str, Any]:
    """A call's arguments as an object, for APIs that require one."""
    if isinstance(arguments, dict):
        return arguments
    return {} if arguments is None else {"arguments": arguments}


def build_unsupported_error(model: str, what: object, where: str) -> InvalidRequest:
    """The error for content that a model does not read: a block, or words for it."""
    kind = what if isinstance(what, str) else type(what).__name__
    return InvalidRequest(f"model {model!r} does not support {kind} input at {where}")


class CallIds:
    """Ids of the calls of one conversation, each unique and in the form that a provider accepts.

    Some providers number the calls of every answer from the start, so one id may stand for several
    calls of a conversation. A result belongs to the last call with its id.

    Args:
        fit: makes an id acceptable; the same id always becomes the same.
    """

    def __init__(self, fit: Callable[[str], str]) -> None:
        self._fit = fit
        self._wire: dict[str, str] = {}
        self._used: set[str] = set()

    def of_call(self, id: str) -> str:
        """A new id for the next call of the conversation."""
        wire, count = self._fit(id), 1
        while wire in self._used:
            count += 1
            wire = self._fit(f"{id}_{count}")
        self._used.add(wire)
        self._wire[id] = wire
        return wire

    def of_result(self, id: str) -> str:
        """The id that the call of a result was given."""
        return self._wire.get(id) or self._fit(id)
