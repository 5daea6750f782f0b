"""Holding JSON against a JSON Schema that came from outside."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from awaken.codec import Json, digest
from awaken.domain.references import check_references
from awaken.domain.tool import ToolDescriptor, ToolError, ToolErrorKind

_CACHED = 1024
_MAX_TEXT = 300
_MOST_TOLD = 20
_validators: dict[str, Any] = {}


def as_object(args: Json) -> dict[str, Any]:
    """The arguments of a call, which are an object; null is read as `{}`.

    A schema need not say so, and most of its words are true of every text and every list.

    Raises:
        ToolError: `invalid_arguments`, they are something else.
    """
    if args is None:
        return {}
    if not isinstance(args, dict):
        raise ToolError.invalid_arguments(f"expected a JSON object, got {json_kind(args)}")
    return args


def check_arguments(tool: ToolDescriptor, args: Json) -> None:
    """Returns if `args` fit the tool's schema.

    Raises:
        ToolError: as `validate_against_schema`; that the schema is broken names the tool.
    """
    try:
        validate_against_schema(tool.parameters, args)
    except ToolError as error:
        if error.kind is ToolErrorKind.INTERNAL:
            raise ToolError.internal(f"{error.message} (tool {tool.id!r})") from error
        raise


def validate_against_schema(schema: Json, args: Json) -> None:
    """Returns if `args` fit `schema` (Draft 2020-12); every `args` fit `None`, `{}` and `True`.

    Raises:
        ToolError: `invalid_arguments` with the first 20 violations and their places, or `internal`
            when the schema itself is broken.
    """
    if schema is None or schema is True or schema == {}:
        return
    validator = compiled(schema)
    try:
        # The iterator is lazy: a hostile list of a million wrong items costs no more than 21.
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
            check_references(schema)
            jsonschema_rs = importlib.import_module("jsonschema_rs")
            # Offline: a schema from a stranger must not make this process fetch addresses.
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
    # The library quotes the value, however long.
    return f"{shortened(path_text(place)) or 'arguments'}: {shortened(text)}"


def told_of(faults: Sequence[str]) -> str:
    """The first 20 faults in one line, for the model that made them."""
    more = ["and more"] if len(faults) > _MOST_TOLD else []
    return "; ".join([*faults[:_MOST_TOLD], *more])


def shortened(text: str) -> str:
    """A text without its middle if it is long: a model need not read again all that it wrote."""
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[: _MAX_TEXT // 2]} … {text[-_MAX_TEXT // 2 :]}"


def path_text(place: Iterable[str | int]) -> str:
    """`place.cities[0].name` for the steps to a value."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def json_kind(value: Json) -> str:
    """`a list` and its like, for errors."""
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return kinds.get(type(value), type(value).__name__)
