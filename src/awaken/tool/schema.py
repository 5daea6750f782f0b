"""JSON schemas of tools: made from types, and simplified for models.

The schema for the model is simpler than the enforced one: an optional parameter is shown with its
type alone, though an explicit null is accepted, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from awaken.codec import Json
from awaken.errors import ConfigError
from awaken.tool.pydantic_types import PydanticReader, is_pydantic

_NAMED = frozenset(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"])
_IN_ARRAYS = ["items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"]
_IN_OBJECTS = ["additionalProperties", "unevaluatedProperties", "propertyNames"]
_COMBINED = ["anyOf", "oneOf", "allOf", "not", "if", "then", "else", "contentSchema"]
_NESTED = frozenset([*_IN_ARRAYS, *_IN_OBJECTS, *_COMBINED])
_READABLE = (
    "take str, int, float, bool, list, dict, an Enum, a Literal, a dataclass, a TypedDict, "
    "a msgspec Struct or a pydantic model"
)


def _map_subschemas(schema: dict[str, Any], change: Callable[[Json], Json]) -> dict[str, Any]:
    """A copy with every direct sub-schema changed; values such as defaults stay as they are."""
    copy = dict(schema)
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            copy[key] = {name: change(inner) for name, inner in value.items()}
        elif key in _NESTED:
            copy[key] = [change(v) for v in value] if isinstance(value, list) else change(value)
    return copy


# -- from a type ------------------------------------------------------------------------------


def generate_tool_schema(type_: Any) -> Json:
    """The schema of `type_` for a model: references are inlined, then it is simplified.

    Raises:
        ConfigError: the type has no JSON form, or contains itself.
    """
    return sanitize_for_llm(build_inlined_schema(type_))


def build_inlined_schema(type_: Any) -> dict[str, Any]:
    """The enforced schema of `type_`, without references.

    Raises:
        ConfigError: the type has no JSON form, or contains itself.
    """
    pydantic = is_pydantic(type_)
    try:
        if pydantic:
            raw = PydanticReader(type_).schema()
        else:
            msgspec.json.Decoder(
                type_
            )  # raises for unions that have a schema but cannot be decoded
            raw = msgspec.json.schema(type_)
    except Exception as error:
        # Any exception: resolving the names in a user's type may raise anything. Pydantic says what
        # is wrong in the first line of its text, msgspec in the last.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [repr(error)]
        name = type_.__qualname__ if isinstance(type_, type) else type_
        why = lines[0 if pydantic else -1]
        raise ConfigError(f"`{name}` cannot be read from JSON ({why}): {_READABLE}") from error
    return _inline(raw)


def _inline(raw: dict[str, Any]) -> dict[str, Any]:
    definitions = {**raw.get("definitions", {}), **raw.get("$defs", {})}

    def expand(schema: Json, inside: tuple[str, ...]) -> Json:
        if not isinstance(schema, dict):
            return schema
        # A discriminator maps names to definitions, which are gone after inlining.
        rest = {key: v for key, v in schema.items() if key not in ("$ref", "discriminator")}
        rest = _map_subschemas(rest, lambda inner: expand(inner, inside))
        if "$ref" not in schema:
            return rest
        name = schema["$ref"].rpartition("/")[2]
        if name in inside:
            raise ConfigError(
                f"type {name!r} contains itself, and a tool's schema must be finite: "
                "write dict[str, Any] for the inner part, or a flat list whose items refer by name"
            )
        return {**expand(definitions[name], (*inside, name)), **rest}

    top = ("$schema", "$defs", "definitions")
    inlined: dict[str, Any] = expand({k: v for k, v in raw.items() if k not in top}, ())
    return inlined


# -- for the model ----------------------------------------------------------------------------


def sanitize_for_llm(schema: Json, *, keep_null: bool = False) -> Json:
    """The schema in terms that every model provider understands. Idempotent.

    Null branches are removed, unless `keep_null` is set; `const` becomes `enum`; arrays get `items`
    and objects `properties`. A schema whose `const` is not in its `enum` becomes `False`.
    """
    if not isinstance(schema, dict):
        return schema
    plain = _map_subschemas(schema, partial(sanitize_for_llm, keep_null=keep_null))
    if not keep_null:
        plain = _without_null(plain)
    kind = plain.get("type")
    if isinstance(kind, list) and len(kind) == 2 and "null" in kind and not keep_null:
        plain["type"] = kind = kind[1] if kind[0] == "null" else kind[0]
    if "const" in plain:
        value, allowed = plain.pop("const"), plain.get("enum")
        if isinstance(allowed, list) and not any(_same(value, other) for other in allowed):
            return False
        plain["enum"] = [value]
    if kind == "array":
        plain.setdefault("items", {})
    elif kind == "object":
        plain.setdefault("properties", {})
    return plain


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace `anyOf` of a schema and null by that schema; the parent's keywords take
    precedence."""
    branches = schema.get("anyOf")
    if not isinstance(branches, list) or len(branches) != 2:
        return schema
    first, second = branches
    other = second if _is_null(first) else first if _is_null(second) else None
    if not isinstance(other, dict):
        return schema
    return {**other, **{key: value for key, value in schema.items() if key != "anyOf"}}


def _is_null(schema: Json) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _same(left: Json, right: Json) -> bool:
    """Whether two values are equal as JSON, where `true` is not 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)
