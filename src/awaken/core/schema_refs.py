"""Limiting a JSON Schema: a few lines can unfold to more than can be checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import unquote, urldefrag, urljoin

from awaken.codec import Json
from awaken.core.schema_cost import CHEAP, MAX_PATTERN_BYTES, PatternCost, pattern_cost

MAX_SUBSCHEMAS = 10_000
"""The most subschemas that one value may be checked against."""

# A part of a schema may be of an older draft, which has `$recursiveRef` and `additionalItems`.
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords whose subschemas apply to the same value as the schema itself.
_BESIDE = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf")
_BESIDE_BY_NAME = ("dependentSchemas", "dependencies")
# Keywords whose subschemas apply to items or properties of that value.
_INSIDE = (
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
)
_INSIDE_BY_NAME = ("properties", "patternProperties")

_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_BOUND = 5
"""The cost of comparing two numbers that are fractions or large."""
_DIVIDED, _DIVIDED_BY_TINY = 20, 150
"""The cost of dividing such numbers exactly."""
_TINY = 1e-15
_COMPARED = 5
"""The cost of comparing a part of a list with others."""
_NAMES_FOR_ONE = 10
"""How many names of a schema are looked up in an object at the cost of one subschema."""
_LARGE = 2**63

Schema = dict[str, Any]


class SchemaWeight(NamedTuple):
    """The cost of a schema. `at_one_place` is the most work that one part of a value can make, in
    subschemas. `has_costly_patterns`: there is a regular expression whose use has to be limited.
    `has_alternatives`: the first fault may be made of very many. `compares_items`: an item is
    looked at again for each list that it is in."""

    at_one_place: int = 1
    has_costly_patterns: bool = False
    has_alternatives: bool = False
    compares_items: bool = False


def weigh_schema(schema: Json) -> SchemaWeight:
    """The cost of checking a value against a schema.

    Each value is counted on its own: items and properties are values of their own, and a schema
    that refers to itself there ends where the value does.

    Raises:
        ValueError: the references unfold too far, or form a loop on one value; or its regular
            expressions take too much memory.
    """
    return _Walk(schema).weigh() if isinstance(schema, dict) else SchemaWeight()


class _Walk:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._base: dict[int, str] = {}
        self._named: dict[str, Schema] = {"": root}
        self._counts: dict[int, int | None] = {}
        self._weights: dict[int, int] = {}
        self._patterns: dict[str, PatternCost] = {}
        self._note_names(root, "")

    def weigh(self) -> SchemaWeight:
        heaviest, has_alternatives, is_costly, compares_items = 1, False, False, False
        seen: set[int] = set()
        waiting = [self._root]
        while waiting:
            schema = waiting.pop()
            if id(schema) not in seen:
                seen.add(id(schema))
                self._count(schema)
                heaviest = max(heaviest, self._weight(schema))
                has_alternatives |= "anyOf" in schema or "oneOf" in schema
                compares_items |= schema.get("uniqueItems") is True
                if isinstance(pattern := schema.get("pattern"), str):
                    is_costly |= self._pattern_cost(pattern) > CHEAP
                waiting += self._beside(schema)
                waiting += _children(schema, _INSIDE, _INSIDE_BY_NAME)
        return SchemaWeight(heaviest, is_costly, has_alternatives, compares_items)

    def _count(self, schema: Schema) -> int:
        """The number of subschemas that a value is checked against because of this one."""
        key = id(schema)
        if key in self._counts:
            known = self._counts[key]
            if known is None:
                raise ValueError("a reference leads back to where it began, and no value ends it")
            return known
        self._counts[key] = None
        count = 1 + sum(map(self._count, self._beside(schema)))
        if any(word in schema for word in _UNEVALUATED):
            count *= 2  # what stands beside is checked again, to find out what it has evaluated
        if count > MAX_SUBSCHEMAS:
            raise ValueError(
                "its references unfold so far that one value is held against more than "
                f"{MAX_SUBSCHEMAS} subschemas"
            )
        self._counts[key] = count
        return count

    def _weight(self, schema: Schema) -> int:
        """The work that one part of a value makes because of this schema, in subschemas."""
        key = id(schema)
        if key not in self._weights:
            again = 2 if any(word in schema for word in _UNEVALUATED) else 1
            beside = sum(map(self._weight, self._beside(schema)))
            self._weights[key] = again * (self._own_weight(schema) + beside)
        return self._weights[key]

    def _own_weight(self, schema: Schema) -> int:
        weight, names = 1, schema.get("patternProperties")
        if isinstance(choices := schema.get("enum"), list):
            weight += _choice_cost(choices)
        if isinstance(others := schema.get("dependentRequired"), dict):
            weight += len(others) // _NAMES_FOR_ONE
        if schema.get("uniqueItems") is True:
            weight += _COMPARED
        weight += _BOUND * sum(word in schema for word in _BOUNDS)
        if _is_hard(step := schema.get("multipleOf")):
            weight += _DIVIDED if abs(step) >= _TINY else _DIVIDED_BY_TINY
        if isinstance(names, dict):
            weight += sum(map(self._pattern_cost, names))
        if isinstance(required := schema.get("required"), list):
            weight += len(required)
        return weight

    def _pattern_cost(self, pattern: str) -> int:
        """The cost of a character."""
        if pattern not in self._patterns:
            self._patterns[pattern] = pattern_cost(pattern)
            if sum(cost.size for cost in self._patterns.values()) > MAX_PATTERN_BYTES:
                raise ValueError("its regular expressions take too much memory")
        return self._patterns[pattern].per_character

    def _beside(self, schema: Schema) -> Iterator[Schema]:
        for word in _REFERENCES:
            target = self._target(schema, schema.get(word))
            if target is not None:
                yield target
        yield from _children(schema, _BESIDE, _BESIDE_BY_NAME)

    def _target(self, schema: Schema, reference: object) -> Schema | None:
        """The target of a reference, or `None` if unknown: the validator reports that."""
        if not isinstance(reference, str):
            return None
        base = self._base.get(id(schema), "")
        # `urljoin` cannot add a fragment to every kind of address.
        whole = base + reference if reference.startswith("#") else urljoin(base, reference)
        address, fragment = urldefrag(whole)
        if fragment and not fragment.startswith("/"):
            return self._named.get(f"{address}#{fragment}")
        found: Any = self._named.get(address)
        for step in unquote(fragment).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else None

    def _note_names(self, value: Json, base: str) -> None:
        if isinstance(value, list):
            for item in value:
                self._note_names(item, base)
        if not isinstance(value, dict):
            return
        if isinstance(own := value.get("$id"), str):
            base = urldefrag(urljoin(base, own))[0]
            self._named[base] = value
        self._base[id(value)] = base
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := value.get(word), str):
                self._named[f"{base}#{anchor}"] = value
        for item in value.values():
            self._note_names(item, base)


def _choice_cost(choices: list[Json]) -> int:
    """The cost of looking for a value in an enumeration."""
    kinds = set(map(type, choices))
    is_indexed = kinds <= {str, type(None)} or kinds == {int}
    if is_indexed and not any(map(_is_hard, choices)):
        return 0
    hard = sum(map(_is_hard, choices))
    nested = sum(isinstance(one, list | dict) for one in choices)
    numbers = sum(type(one) is int for one in choices)
    return 2 * _BOUND * hard + 4 * nested + numbers + len(choices) // _NAMES_FOR_ONE


def _is_hard(value: Json) -> TypeGuard[float]:
    """Whether it is a number with which the validator does not calculate at once."""
    is_large = isinstance(value, int) and abs(value) >= _LARGE
    return is_large or isinstance(value, float)


def _children(schema: Schema, words: tuple[str, ...], by_name: tuple[str, ...]) -> Iterator[Schema]:
    for word in words:
        child = schema.get(word)
        yield from (s for s in (child if isinstance(child, list) else [child]) if type(s) is dict)
    for word in by_name:
        named = schema.get(word)
        if isinstance(named, dict):
            yield from (s for s in named.values() if isinstance(s, dict))
