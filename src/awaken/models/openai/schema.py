"""Converting JSON Schemas for OpenAI.

In strict mode the model keeps to the schema, but the schema may use only some keywords, every
object must be closed, and every property required.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEPT = {"type", "description", "title", "enum", "const", "pattern", "format", "multipleOf"}
_KEPT |= {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}
# Annotations: leaving them out does not change which values are valid.
_DROPPED = {"default", "discriminator", "examples", "deprecated", "readOnly", "writeOnly"}
_DROPPED |= {"$schema", "$id", "$comment"}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


class _Loose(Exception):
    """Strict mode cannot express the schema."""


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema for strict mode, or `None` if strict mode cannot express it.

    Every value that fits the result fits `schema`, too. An optional property is made required if it
    may be null or has a default: the model is never forced to invent a value.
    """
    try:
        strict = _strict(_root(schema))
    except _Loose:
        return None
    return strict if strict.get("type") == "object" else None


def object_schema(schema: object) -> dict[str, Any]:
    """A tool's parameters as an object schema with properties, which the API requires."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    if schema.get("type") == "object" and "properties" in schema:
        return schema
    return {"type": "object", "properties": {}, **schema}


def _root(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with its outermost `$ref` replaced by the definition."""
    name = _definition(schema.get("$ref"))
    definitions = schema.get("$defs")
    if name is None or not isinstance(definitions, dict) or name not in definitions:
        return schema
    return {**definitions[name], "$defs": definitions}


def _definition(ref: object) -> str | None:
    prefix = "#/$defs/"
    return ref.removeprefix(prefix) if isinstance(ref, str) and ref.startswith(prefix) else None


def _strict(schema: object) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise _Loose  # `true` and `false` are schemas, too
    if "$ref" in schema:
        # Only the definitions may stand beside a reference.
        strict: dict[str, Any] = {"$ref": schema["$ref"]}
        schema = {key: value for key, value in schema.items() if key == "$defs"}
    else:
        strict = {}
    for key, value in schema.items():
        if key in _KEPT:
            strict[key] = value
        elif key in _INSIDE:
            strict[key] = _INSIDE[key](value)
        elif key not in _DROPPED and key not in ("properties", "required", "additionalProperties"):
            raise _Loose
    if "format" in strict and strict["format"] not in _FORMATS:
        raise _Loose
    if "properties" in schema or schema.get("type") == "object":
        strict.update(_strict_object(schema))
    return strict


def _strict_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    # An object without properties, or with a schema for additional ones, is a mapping of any keys.
    if not isinstance(properties, dict) or schema.get("additionalProperties", False) is not False:
        raise _Loose
    required = schema.get("required", ())
    for name, inner in properties.items():
        if name not in required and not (_nullable(inner) or "default" in inner):
            raise _Loose
    return {
        "properties": {name: _strict(inner) for name, inner in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def _nullable(schema: object) -> bool:
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    return None in schema.get("enum", ()) or any(map(_nullable, schema.get("anyOf", ())))


_INSIDE: dict[str, Any] = {
    "items": _strict,
    "anyOf": lambda schemas: [_strict(schema) for schema in schemas],
    "$defs": lambda schemas: {name: _strict(schema) for name, schema in schemas.items()},
}
