"""Limiting the references of a JSON Schema: a few lines can unfold to more than can be checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from awaken.codec import Json

MOST_AT_ONE_PLACE = 10_000
"""The most subschemas that one value may be checked against."""

_REFERENCES = ("$ref", "$dynamicRef")
# Keywords whose subschemas apply to the same value as the schema itself.
_BESIDE = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf")
_BESIDE_BY_NAME = ("dependentSchemas", "dependencies")
# Keywords whose subschemas apply to items or properties of that value.
_INSIDE = (
    *("items", "prefixItems", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_INSIDE_BY_NAME = ("properties", "patternProperties")

Schema = dict[str, Any]


def check_references(schema: Json) -> None:
    """Return if no value would be checked against too many subschemas.

    Each value is counted on its own: items and properties are values of their own, and a schema
    that refers to itself there ends where the value does.

    Raises:
        ValueError: the references unfold too far, or form a loop on one value.
    """
    if isinstance(schema, dict):
        _Walk(schema).check()


class _Walk:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._base: dict[int, str] = {}
        self._named: dict[str, Schema] = {"": root}
        self._counts: dict[int, int | None] = {}
        self._note_names(root, "")

    def check(self) -> None:
        seen: set[int] = set()
        waiting = [self._root]
        while waiting:
            schema = waiting.pop()
            if id(schema) not in seen:
                seen.add(id(schema))
                self._count(schema)
                waiting += self._beside(schema)
                waiting += _children(schema, _INSIDE, _INSIDE_BY_NAME)

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
        if count > MOST_AT_ONE_PLACE:
            raise ValueError(
                "its references unfold so far that one value is held against more than "
                f"{MOST_AT_ONE_PLACE} subschemas"
            )
        self._counts[key] = count
        return count

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


def _children(schema: Schema, words: tuple[str, ...], by_name: tuple[str, ...]) -> Iterator[Schema]:
    for word in words:
        child = schema.get(word)
        yield from (s for s in (child if isinstance(child, list) else [child]) if type(s) is dict)
    for word in by_name:
        named = schema.get(word)
        if isinstance(named, dict):
            yield from (s for s in named.values() if isinstance(s, dict))
