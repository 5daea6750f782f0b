"""Checking JSON against JSON Schemas, which may come from untrusted sources."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from awaken.codec import Json, digest
from awaken.domain.tool import ToolDescriptor, ToolError, ToolErrorKind

_CACHED = 1024
_MAX_TEXT = 300
_MOST_TOLD = 20
_validators: dict[str, Any] = {}


def as_object(args: Json) -> dict[str, Any]:
    """The arguments of a tool call, checked to be an object; null becomes `{}`.

    A schema may not say that they must be one, and most keywords accept any text or list.

    Raises:
        ToolError: `invalid_arguments`, the arguments are not an object.
    """
    if args is None:
        return {}
    if not isinstance(args, dict):
        raise ToolError.invalid_arguments(f"expected a JSON object, got {json_kind(args)}")
    return args


def check_arguments(tool: ToolDescriptor, args: Json) -> None:
    """Return if `args` fit the tool's schema.

    Raises:
        ToolError: as `validate_against_schema`; if the schema is broken, the text names the tool.
    """
    try:
        validate_against_schema(tool.parameters, args)
    except ToolError as error:
        if error.kind is ToolErrorKind.INTERNAL:
            raise ToolError.internal(f"{error.message} (tool {tool.id!r})") from error
        raise


def validate_against_schema(schema: Json, args: Json) -> None:
    """Return if `args` fit `schema` (Draft 2020-12); `None`, `{}` and `True` accept everything.

    Raises:
        ToolError: `invalid_arguments` with the first 20 violations and their paths, or `internal`
            if the schema itself is broken.
    """
    if schema is None or schema is True or schema == {}:
        return
    validator = compiled(schema)
    try:
        # The iterator is lazy: a million wrong items cost no more than 21.
        found = list(islice(validator.iter_errors(args), _MOST_TOLD + 1))
    except (ValueError, OverflowError, RecursionError) as error:
        raise ToolError.invalid_arguments(f"the arguments are not JSON: {error}") from error
    if found:
        raise ToolError.invalid_arguments(told_of([_violation(error) for error in found]))


def compiled(schema: Json) -> Any:
    """The validator of `schema`; equal schemas share one.

    Raises:
        ToolError: `internal`, the schema is broken.
    """
    try:
        key = digest(schema)
        if key not in _validators:
            if not isinstance(schema, dict | bool):
                raise ValueError("it is neither an object nor a boolean")
            if len(_validators) >= _CACHED:
                _validators.pop(next(iter(_validators)), None)
            # Both are loaded here: few agents have a tool whose schema came from outside.
            importlib.import_module("awaken.domain.references").check_references(schema)
            jsonschema_rs = importlib.import_module("jsonschema_rs")
            # Offline: an untrusted schema must not make this process fetch URLs.
            _validators[key] = jsonschema_rs.Draft202012Validator(schema, offline=True)
        return _validators[key]
    except Exception as error:
        why = getattr(error, "message", error)
        raise ToolError.internal(f"the tool's schema is broken: {why}") from error


def _violation(error: Any) -> str:
    place, text = list(error.instance_path), error.message
    if error.kind.name == "required":
        place.append(error.kind.property)
        text = "required, but missing"
    # The library quotes the whole value, which may be long.
    return f"{shortened(path_text(place)) or 'arguments'}: {shortened(text)}"


def told_of(faults: Sequence[str]) -> str:
    """The first 20 faults in one line, for the model that made them."""
    more = ["and more"] if len(faults) > _MOST_TOLD else []
    return "; ".join([*faults[:_MOST_TOLD], *more])


def shortened(text: str) -> str:
    """A long text without its middle: a model need not read all that it wrote again."""
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[: _MAX_TEXT // 2]} … {text[-_MAX_TEXT // 2 :]}"


def path_text(place: Iterable[str | int]) -> str:
    """The path to a value as text, such as `place.cities[0].name`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def json_kind(value: Json) -> str:
    """The kind of a JSON value for error texts, such as `a list`."""
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return kinds.get(type(value), type(value).__name__)
