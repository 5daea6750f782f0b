"""Converting the return value of a tool's function to a `ToolOutput`."""

from __future__ import annotations

import sys
from math import isfinite, isnan
from typing import Any

import msgspec

from awaken.codec import Json, clean_text, clean_value, dumps, loads, to_json
from awaken.core.message import (
    Audio,
    ContentBlock,
    Document,
    Image,
    Text,
    Video,
    as_content,
)
from awaken.core.storable import UNWRITABLE, parse_argument, parse_value
from awaken.core.tool import ToolError, ToolResult, ToolStatus
from awaken.core.tool_context import ToolOutput
from awaken.errors import ConfigError, describe, type_of

_SUCCESS = ToolStatus.SUCCESS  # looked up once, because access to an enum member is slow

# Compared by type, because `isinstance` is slow for structs.
_BLOCKS = frozenset({Text, Image, Audio, Video, Document})
_MAY_HOLD = _BLOCKS | {list, tuple}
_MAX_INTEGER = 2**63

TIMED_OUT, WORKER_DIED = "timed_out", "worker_died"
"""Metadata keys of results of calls that were cut short: they may have taken effect."""
_CUT_SHORT = {TIMED_OUT, WORKER_DIED}


def to_output(tool: str, value: Any) -> ToolOutput:
    """`value` as the output of `tool`.

    Text is read by the model as it is, other values as compact JSON, and None as "done".
    A picture or file, or a list with some of them, is content, which the model is shown. A
    `ToolResult` or `ToolOutput` is checked, and passes as it is.

    Raises:
        ToolError: `execution_failed`, the value is not JSON-able, or a field of a `ToolResult` has
            a wrong type.
    """
    data: Json = None
    message: str | None = "done"
    if type(value) is str:
        data = message = clean_text(value)
    elif type(value) is int and -_MAX_INTEGER < value < _MAX_INTEGER:
        data, message = value, None  # JSON as it is
    elif isinstance(value, ToolOutput):
        if isinstance(value.result, ToolResult):
            return ToolOutput(parse_result(tool, value.result), value.command)
        return ToolOutput(to_output(tool, value.result).result, value.command)
    elif isinstance(value, ToolResult):
        return ToolOutput(parse_result(tool, value))
    elif type(value) in _MAY_HOLD and (content := _content(value)) is not None:
        message = _event_text(content)
        result = ToolResult(tool_name=tool, status=_SUCCESS, message=message, content=content)
        return ToolOutput(result)
    elif value is not None:
        data = _data(tool, value)
        message = data if isinstance(data, str) else None
    return ToolOutput(ToolResult(tool_name=tool, status=_SUCCESS, data=data, message=message))


def parse_result(tool: str, result: ToolResult) -> ToolResult:
    """A result that a tool has made itself, as a store returns it.

    Raises:
        ToolError: `execution_failed`, it could not be read back; the text names the field.
    """
    try:
        given = clean_value(result)
        parsed: ToolResult = parse_value("its result", given, ToolResult)
        if parsed.data != given.data:  # floats that JSON does not have became null, for example
            parsed = msgspec.structs.replace(parsed, data=to_data(given.data))
        return parsed
    except (ConfigError, *UNWRITABLE) as error:
        raise ToolError.execution_failed(
            f"tool {tool!r} returned a ToolResult that cannot be kept: {describe(error)}"
        ) from error


def _content(value: Any) -> tuple[ContentBlock, ...] | None:
    """The value as content, if it is a block or a list with one; texts and paths may stand among
    them."""
    parts = (value,) if type(value) in _BLOCKS else value
    if not any(type(one) in _BLOCKS for one in parts):
        return None
    try:
        blocks = [Text(text=one) if type(one) is str else as_content(one) for one in parts]
        content: tuple[ContentBlock, ...] = parse_argument(
            "its content", tuple([clean_value(block) for block in blocks]), tuple[ContentBlock, ...]
        )
        return content
    except (TypeError, ValueError, OSError, ConfigError) as error:
        raise ToolError.execution_failed(describe(error)) from error


def _event_text(content: tuple[ContentBlock, ...]) -> str:
    """The text of content for events: its texts, and the kinds of the rest."""
    return "\n".join(
        clean_text(block.text) if isinstance(block, Text) else f"[{type(block).__name__.lower()}]"
        for block in content
    )


def cut_short_result(tool: str, error: ToolError, mark: str) -> ToolOutput:
    """The output of a call that was cut short before it had answered."""
    return ToolOutput(
        ToolResult(
            tool_name=tool,
            status=ToolStatus.ERROR,
            message=clean_text(str(error)),
            metadata={mark: True},
        )
    )


def was_cut_short(result: ToolResult) -> bool:
    """Whether a call was cut short before it had answered, so that it may have taken effect."""
    return not _CUT_SHORT.isdisjoint(result.metadata)


def to_data(value: Any) -> Json:
    """The JSON value of anything JSON-able, pydantic models included. It is a copy. Floats that
    JSON does not have are written as the texts `NaN`, `Infinity` and `-Infinity`.

    Raises:
        Exception: a part has no JSON form; the type of the error depends on the part.
    """
    try:
        encoded = dumps(value)
        if b"null" not in encoded:  # the encoder writes null for such a float
            return loads(encoded)
    except UnicodeEncodeError:
        pass  # half of a surrogate pair
    except TypeError:
        if "pydantic" not in sys.modules:
            raise
    plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_dump_model)
    return to_json(clean_value(_finite(plain)))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_finite(one) for one in value]
    return value


def _data(tool: str, value: Any) -> Json:
    if isinstance(value, Exception):
        raise ToolError.execution_failed(f"tool {tool!r} returned {value!r}: raise it instead")
    try:
        return to_data(value)
    except Exception as error:
        raise ToolError.execution_failed(
            f"tool {tool!r} returned {type_of(value)}, which is not JSON: {describe(error)}"
        ) from error


def _dump_model(value: Any) -> Json:
    dump = getattr(value, "model_dump", None)
    return to_json(value) if dump is None else dump(mode="json")
