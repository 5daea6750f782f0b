"""Holding JSON against a JSON Schema that came from outside."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from awaken.codec import Json, digest
from awaken.domain.tool import ToolError

_CACHED = 1024
_MAX_TEXT = 300
_validators: dict[str, Any] = {}


def validate_against_schema(schema: Json, args: Json) -> None:
    """Nothing, if `args` fit `schema` (Draft 2020-12); a schema that asks for nothing fits all.

    Raises:
        ToolError: `invalid_arguments` with every violation and its place, or `internal` when the
            schema itself is broken.
    """
    if schema is None:
        return
    if isinstance(schema, dict) and not schema.get("properties") and not schema.get("required"):
        return
    try:
        violations = [_violation(error) for error in compiled(schema).iter_errors(args)]
    except ValueError as error:
        raise ToolError.invalid_arguments(f"the arguments are not JSON: {error}") from error
    if violations:
        raise ToolError.invalid_arguments("; ".join(violations))


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
    if len(text) > _MAX_TEXT:  # the library quotes the value, however long
        text = f"{text[: _MAX_TEXT // 2]} … {text[-_MAX_TEXT // 2 :]}"
    return f"{path_text(place) or 'arguments'}: {text}"


def path_text(place: Iterable[str | int]) -> str:
    """`place.cities[0].name` for the steps to a value."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")
