"""Users' own pydantic types: recognised without importing pydantic, and read by pydantic.

Pydantic is used only if an annotation comes from it, and then it is imported already.
"""

from __future__ import annotations

import importlib
import sys
import typing
from typing import Any

import msgspec

from awaken.codec import Json, dumps
from awaken.errors import ConfigError

Complaint = tuple[tuple[str | int, ...], str]
"""The place of a wrong value, and the error."""

MAX_VALUES = 200_000
"""The limit of a value's parts: pydantic makes all errors, at 400 bytes each and more."""
MAX_LISTED = 20_000
"""The number of errors that are named at most; a list of them takes 400 bytes for each."""

_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")


def is_pydantic(annotation: Any) -> bool:
    """Whether pydantic has to read `annotation`: it contains a model or a `Field(...)`, at any
    depth.

    Raises:
        ConfigError: it contains a constraint that neither pydantic nor msgspec would enforce.
    """
    parts = _parts(annotation)
    limits = [part for part in parts if _is_constraint(part)]
    if "pydantic" not in sys.modules:
        if limits:
            raise ConfigError(f"{limits[0]!r} is pydantic's: write msgspec.Meta(...) instead")
        return False
    if not limits and not any(_is_model(part) for part in parts):
        return False
    for part in parts:
        if isinstance(part, msgspec.Meta) and any(
            getattr(part, limit) is not None for limit in _LIMITS
        ):
            raise ConfigError(f"{part!r} is not read by pydantic: write pydantic.Field(...) there")
    return True


def _parts(annotation: Any) -> list[Any]:
    """Every type and every piece of `Annotated` metadata reachable from `annotation`."""
    found: list[Any] = []
    waiting = [annotation]
    while waiting:
        part = waiting.pop()
        if any(part is known for known in found):
            continue
        found.append(part)
        waiting.extend(typing.get_args(part))
        if isinstance(part, type) and not _is_model(part) and _has_fields(part):
            waiting.extend(_field_types(part))
    return found


def _field_types(type_: type) -> list[Any]:
    try:
        return list(typing.get_type_hints(type_, include_extras=True).values())
    except Exception:
        return []  # annotations that cannot be resolved are reported when the schema is built


def _has_fields(type_: type) -> bool:
    return (
        hasattr(type_, "__dataclass_fields__")
        or hasattr(type_, "__required_keys__")  # a TypedDict, of typing or typing_extensions
        or issubclass(type_, msgspec.Struct)
        or (issubclass(type_, tuple) and hasattr(type_, "_fields"))
    )


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and (
        hasattr(part, "__pydantic_core_schema__") or hasattr(part, "__get_pydantic_core_schema__")
    )


def _is_constraint(part: Any) -> bool:
    """Whether it is `Annotated` metadata that only pydantic enforces."""
    home = type(part).__module__.partition(".")[0]
    return not isinstance(part, type) and home in ("pydantic", "annotated_types")


class PydanticReader:
    """Reads JSON into one pydantic type, and gives its schema."""

    def __init__(self, annotation: Any) -> None:
        pydantic = importlib.import_module("pydantic")
        self._adapter = pydantic.TypeAdapter(annotation)
        self._error: type[Exception] = pydantic.ValidationError
        # It is loaded here because it loads the library that checks schemas.
        self._count_values = importlib.import_module("awaken.core.schema_cost").count_values
        # A model sets its own strictness; plain types with a Field(...) stay as strict as without
        # it.
        models = any(_is_model(part) for part in _parts(annotation))
        self._strict = None if models else True

    def schema(self) -> dict[str, Any]:
        """Pydantic's schema, without the titles that it generates for fields."""
        home = importlib.import_module("pydantic.json_schema").GenerateJsonSchema
        untitled = type("Untitled", (home,), {"field_title_should_be_set": lambda *_: False})
        schema: dict[str, Any] = self._adapter.json_schema(schema_generator=untitled)
        return schema

    def read(self, value: Json) -> tuple[Any, list[Complaint]]:
        """The value and no complaints, or `None` and the complaints, each with its place."""
        if self._count_values(value, MAX_VALUES) > MAX_VALUES:
            return None, [((), "the value is too large to be checked: send less")]
        try:
            # As JSON, not as Python: a strict model still takes a date from a string.
            return self._adapter.validate_json(dumps(value), strict=self._strict), []
        except self._error as error:
            count: int = error.error_count()  # type: ignore[attr-defined]
            if count > MAX_LISTED:
                return None, [((), f"{count} values do not fit, too many to say where: send fewer")]
            details = error.errors(include_url=False, include_input=False)  # type: ignore[attr-defined]
            return None, [(detail["loc"], detail["msg"]) for detail in details]

    def write(self, value: Any) -> Json:
        """The JSON that would be read as `value`."""
        return self._adapter.dump_python(value, mode="json", by_alias=True)
