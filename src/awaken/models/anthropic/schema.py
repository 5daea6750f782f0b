"""Converting JSON Schemas to the subset that Anthropic's structured outputs accept.

Constraints that are left out are added to the description; the caller validates the answer anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from awaken.codec import dumps_text

_FORMATS = frozenset(
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"]
)
_AS_IT_IS = ("type", "title", "description", "enum", "const", "default", "required")
_DROPPED = ("$schema", "$id", "$comment", "discriminator", "deprecated")
_DEFINITIONS = ("$defs", "definitions")
# These change the shape of the answer, so a description cannot replace them.
_UNKEPT = ("patternProperties", "prefixItems", "propertyNames", "not", "if", "dependentSchemas")


class _UnkeptError(Exception):
    """A schema cannot be expressed in the subset."""


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """`schema` in the accepted subset; `None` if that cannot express it."""
    try:
        _check_recursion(schema)
        return _strict(schema)
    except _UnkeptError:
        return None


def _strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict) or any(name in schema for name in _UNKEPT):
        raise _UnkeptError
    rest = {name: value for name, value in schema.items() if name not in _DROPPED}
    strict: dict[str, Any] = {
        name: {key: _strict(value) for key, value in rest.pop(name).items()}
        for name in _DEFINITIONS
        if name in rest
    }
    if "$ref" in rest:
        return {**strict, "$ref": rest["$ref"]}
    strict |= {name: rest.pop(name) for name in _AS_IT_IS if name in rest}
    for name, wire in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if name in rest:
            strict[wire] = [_strict(variant) for variant in rest.pop(name)]
    _check_literals(strict)
    kinds = strict.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    for kind in kinds:
        if take := _TAKE.get(kind):
            take(rest, strict)
    if rest:
        said = f"{{{', '.join(f'{name}: {dumps_text(value)}' for name, value in rest.items())}}}"
        strict["description"] = "\n\n".join(filter(None, [strict.get("description"), said]))
    return strict


def _take_object(rest: dict[str, Any], strict: dict[str, Any]) -> None:
    others = rest.pop("additionalProperties", None)
    if others or (others is None and "properties" not in rest):
        raise _UnkeptError
    properties = rest.pop("properties", {})
    strict["properties"] = {name: _strict(value) for name, value in properties.items()}
    strict["additionalProperties"] = False


def _take_array(rest: dict[str, Any], strict: dict[str, Any]) -> None:
    strict["items"] = _strict(rest.pop("items", None))
    if rest.get("minItems") in (0, 1):
        strict["minItems"] = rest.pop("minItems")


def _take_string(rest: dict[str, Any], strict: dict[str, Any]) -> None:
    if rest.get("format") in _FORMATS:
        strict["format"] = rest.pop("format")


_TAKE = {"object": _take_object, "array": _take_array, "string": _take_string}


def _check_literals(strict: dict[str, Any]) -> None:
    literals = [*strict.get("enum", ()), *([strict["const"]] if "const" in strict else ())]
    if any(isinstance(value, dict | list) for value in literals):
        raise _UnkeptError
    if not literals and not any(name in strict for name in ("type", "anyOf", "allOf")):
        raise _UnkeptError


def _check_recursion(schema: dict[str, Any]) -> None:
    """Refuse references that lead back to themselves, or out of the schema."""
    graph: dict[str, set[str]] = {}
    for name in _DEFINITIONS:
        for key, value in (schema.get(name) or {}).items():
            graph[f"#/{name}/{key}"] = set(_references(value))
    if not set(_references(schema)) <= graph.keys():
        raise _UnkeptError
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise _UnkeptError from error


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == "$ref" and isinstance(item, str):
                yield item
            else:
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
