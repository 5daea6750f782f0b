"""Checking JSON against JSON Schemas, which may come from untrusted sources."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Any

from awaken.codec import Json, digest
from awaken.core.tool import ToolDescriptor, ToolError, ToolErrorKind

_CACHED = 256
_MAX_TEXT = 300
_MAX_FAULTS = 20
_LIGHT = 10
"""The weight of a schema below which every value is checked."""
_MAX_WORK = 10_000_000
"""The most subschemas that a whole value may be checked against."""
_MAX_LISTED = 20_000
"""The same, for values all of whose violations are looked for."""
_NO_LIMIT = nullcontext()
_validators: dict[str, CompiledSchema] = {}


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
        ToolError: `invalid_arguments` with violations and their paths: the first 20 of a small
            value, the first one of a large value. Or `internal` if the schema itself is broken.
    """
    if schema is None or schema is True or schema == {}:
        return
    problem = compile_schema(schema).problem(args)
    if problem is not None:
        raise ToolError.invalid_arguments(problem)


class CompiledSchema:
    """A schema that checks values in bounded time."""

    def __init__(self, schema: Any) -> None:
        # These are loaded here: few agents have a tool whose schema came from outside.
        weight = importlib.import_module("awaken.core.schema_refs").weigh_schema(schema)
        self._cost = importlib.import_module("awaken.core.schema_cost")
        self._weight, self._has_alternatives = weight.at_one_place, weight.has_alternatives
        self._is_limited, self._compares_items = weight.has_costly_patterns, weight.compares_items
        keywords = {"uniqueItems": self._cost.UniqueItems}
        if self._is_limited:
            keywords["pattern"] = self._cost.Pattern
        # Offline: an untrusted schema must not make this process fetch URLs.
        self._validator = importlib.import_module("jsonschema_rs").Draft202012Validator(
            schema, offline=True, keywords=keywords, pattern_options=self._cost.OPTIONS
        )

    def problem(self, args: Json) -> str | None:
        """Why a value does not fit the schema, or `None` if it does."""
        is_heavy = self._weight > _LIGHT or self._compares_items
        if is_heavy and self._work(args, _MAX_WORK) > _MAX_WORK:
            return "the arguments are too large to be checked against this schema: send fewer"
        try:
            with self._cost.MatchLimit() if self._is_limited else _NO_LIMIT as limit:
                if self._validator.is_valid(args):
                    return None
            if limit is not None and limit.is_reached:
                return "the arguments have too much text for the patterns of this schema: send less"
            with self._cost.MatchLimit():
                return self._violations(args)
        except (ValueError, OverflowError, RecursionError) as error:
            return f"the arguments are not JSON: {error}"

    def _work(self, args: Json, limit: int) -> int:
        """The most subschemas that a value is held against; stops counting above `limit`."""
        limit = limit // self._weight
        count = self._cost.count_values(args, limit, by_list=self._compares_items)
        work: int = count * self._weight
        return work

    def _violations(self, args: Json) -> str:
        # `iter_errors` makes all errors before it gives the first one.
        if self._work(args, _MAX_LISTED) <= _MAX_LISTED:
            found = list(islice(self._validator.iter_errors(args), _MAX_FAULTS + 1))
            return join_faults([_violation(error) for error in found])
        if self._has_alternatives:  # whose error has all errors of each alternative in it
            return "they do not fit the schema, and are too large to say where: send fewer"
        try:
            self._validator.validate(args)
        except ValueError as error:
            return join_faults([_violation(error)])
        return "they do not fit the schema"


def compile_schema(schema: Json) -> CompiledSchema:
    """The compiled form of `schema`; equal schemas share one.

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
            _validators[key] = CompiledSchema(schema)
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
    return f"{shorten_text(path_text(place)) or 'arguments'}: {shorten_text(text)}"


def join_faults(faults: Sequence[str]) -> str:
    """The first 20 faults in one line, for the model that made them."""
    more = ["and more"] if len(faults) > _MAX_FAULTS else []
    return "; ".join([*faults[:_MAX_FAULTS], *more])


def shorten_text(text: str) -> str:
    """A long text without its middle: the model that wrote it need not read all of it again."""
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
