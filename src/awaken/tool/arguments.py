"""Decoding JSON arguments into a tool's types, with error texts that a model can act on.

The texts name all faults, `MAX_ERRORS` at most; msgspec itself reports only the first.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Sequence
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Protocol, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect as shapes

from awaken.codec import Json, loads
from awaken.core.schema import join_faults, json_kind, path_text, shorten_text
from awaken.core.tool import ToolError
from awaken.errors import ConfigError
from awaken.tool.output import to_data
from awaken.tool.pydantic_types import Complaint, PydanticReader, is_pydantic
from awaken.tool.schema import build_inlined_schema, sanitize_for_llm
from awaken.tool.signature import REQUIRED, Parameter, bad_parameter


class ArgumentReader(Protocol):
    """The argument type of one tool: its schema for the model, and how arguments are decoded."""

    schema: Json

    def read(self, args: Json) -> Any:
        """The decoded arguments; null is read as no arguments.

        Raises:
            ToolError: `invalid_arguments`; the text says where, and what was expected.
        """
        ...


def reader_of(type_: Any) -> ArgumentReader:
    """The reader of an argument type: a Struct, dataclass, TypedDict or pydantic model.

    Raises:
        ConfigError: the type is not an object in JSON, or cannot be read from JSON.
    """
    schema = sanitize_for_llm(build_inlined_schema(type_))
    if schema.get("type") != "object":
        raise ConfigError(f"{type_!r} is no object in JSON: take a Struct, dataclass or TypedDict")
    return _ModelReader(type_, schema) if is_pydantic(type_) else _TypeReader(type_, schema)


_SCALARS = (type(None), bool, int, float, str)


class FunctionReader:
    """Reads arguments into one Struct with a field for each parameter of a function."""

    def __init__(self, tool: str, parameters: Sequence[Parameter], texts: dict[str, str]) -> None:
        self._pydantic: dict[str, PydanticReader] = {}
        self._defaults = {p.name: p.default for p in parameters if p.default is not REQUIRED}
        properties: dict[str, Json] = {}
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for parameter in parameters:
            try:
                properties[parameter.name] = _property(parameter, texts.get(parameter.name))
                fields.append(self._field(parameter))
            except ConfigError as error:
                raise bad_parameter(tool, parameter.name, error) from error
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        required = [p.name for p in parameters if p.default is REQUIRED]
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False
        self.schema = sanitize_for_llm(schema)
        self.type = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)

    def read(self, args: Json) -> msgspec.Struct:
        try:
            decoded: msgspec.Struct = _convert(args, self.type, self.schema)
        except ToolError as error:
            if not (self._pydantic and isinstance(args, dict)):
                raise
            given = {name: args[name] for name in self._pydantic if name in args}
            wrong = [text for name in given for text in self._read_one(name, given[name])[1]]
            texts = [error.message, join_faults(_in_words(wrong))] if wrong else [error.message]
            raise ToolError.invalid_arguments("; ".join(texts)) from None
        if self._pydantic:
            self._read_pydantic(decoded)
        return decoded

    def _read_pydantic(self, decoded: msgspec.Struct) -> None:
        """Replace the JSON of parameters with pydantic types by their values."""
        wrong: list[Complaint] = []
        for name in self._pydantic:
            given = getattr(decoded, name)
            if given is msgspec.UNSET:
                setattr(decoded, name, self._defaults[name])
                continue
            value, complaints = self._read_one(name, given)
            setattr(decoded, name, value)
            wrong += complaints
        _refuse(wrong)

    def _read_one(self, name: str, given: Json) -> tuple[Any, list[Complaint]]:
        """The value of a parameter with a pydantic type, and its faults."""
        value, complaints = self._pydantic[name].read(given)
        return value, [((name, *place), text) for place, text in complaints]

    def write_arguments(self, decoded: msgspec.Struct) -> dict[str, Json]:
        """The arguments as JSON again, without those that have their default."""
        given = {}
        for name, value in msgspec.structs.asdict(decoded).items():
            if name not in self._defaults or value is not self._defaults[name]:
                reader = self._pydantic.get(name)
                given[name] = to_data(value) if reader is None else reader.write(value)
        return given

    def _field(self, parameter: Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
        name, type_, default = parameter.name, parameter.annotation, parameter.default
        if is_pydantic(type_):
            self._pydantic[name] = PydanticReader(type_)
            # UNSET, so that a default is passed as it is and never validated.
            return (name, Any) if default is REQUIRED else (name, Any, msgspec.UNSET)
        if default is REQUIRED:
            return (name, type_)
        if type(default) in _SCALARS:
            return (name, type_, default)
        # A factory, so that any object may be a default, as it may in the function.
        return (name, type_, msgspec.field(default_factory=lambda: default))


def _property(parameter: Parameter, text: str | None) -> dict[str, Any]:
    """One parameter's schema; a description in its annotation takes precedence over the docstring's
    `text`."""
    schema = build_inlined_schema(parameter.annotation)
    said = [getattr(m, "description", None) for m in _remarks(parameter.annotation)]
    description = next((words for words in reversed(said) if words), text)
    if description:
        schema["description"] = description
    if parameter.default is not REQUIRED:
        try:
            schema["default"] = to_data(parameter.default)
        except Exception:
            return schema  # the default has no JSON form; the argument may be left out all the same
    return schema


def _remarks(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__metadata__", ())


class _TypeReader:
    """Reads arguments into any type but pydantic's."""

    def __init__(self, type_: Any, schema: Json) -> None:
        self.type = type_
        self.schema = schema

    def read(self, args: Json) -> Any:
        return _convert(args, self.type, self.schema)


class _ModelReader:
    """Reads arguments into a pydantic model."""

    def __init__(self, type_: Any, schema: Json) -> None:
        self.schema = schema
        self._pydantic = PydanticReader(type_)

    def read(self, args: Json) -> Any:
        value, wrong = self._pydantic.read(_as_object(args))
        _refuse(wrong)
        return value


def _convert(args: Json, type_: Any, schema: Json) -> Any:
    if type(args) is not dict:
        args = _as_object(args)
    try:
        # A copy, because a tool may change its arguments, and the recorded call must not change.
        return msgspec.convert(msgspec.to_builtins(args), type_)
    except msgspec.ValidationError as error:
        faults = all_faults(args, type_) or [str(error)]
        texts = [_explain(fault, schema) for fault in faults]
        raise ToolError.invalid_arguments("; ".join(texts)) from None


def _as_object(args: Json) -> Json:
    """`args` as an object: null becomes an empty one, and a string is decoded once more, because
    some models encode twice."""
    if args is None:
        return {}
    if isinstance(args, dict):
        return args
    if isinstance(args, str):
        try:
            inner = loads(args)
        except (msgspec.DecodeError, UnicodeError) as error:
            why = f"expected a JSON object, got a string that is not JSON ({error})"
            raise ToolError.invalid_arguments(why) from None
        if isinstance(inner, dict):
            return inner
    raise ToolError.invalid_arguments(f"expected a JSON object, got {json_kind(args)}")


# -- error texts ------------------------------------------------------------------------------


def _refuse(wrong: list[Complaint]) -> None:
    if wrong:
        raise ToolError.invalid_arguments(join_faults(_in_words(wrong)))


def _in_words(wrong: list[Complaint]) -> list[str]:
    return [
        f"{shorten_text(path_text(place)) or 'arguments'}: {shorten_text(text)}"
        for place, text in wrong
    ]


_PLACE = r"(?s)(?P<what>.*) - at (?P<key>`key` in )?`\$\.?(?P<place>.*)`"
_FIELD = r"Object (?P<what>missing required|contains unknown) field `(?P<name>.*)`"


def _explain(message: str, schema: Json) -> str:
    """msgspec's ``Expected `str`, got `int` - at `$.city` `` as ``city: expected `str`…``."""
    what, place = message, ""
    if found := re.fullmatch(_PLACE, message):
        what, place = found["what"], found["place"]
    within = _at(schema, place)
    if field := re.fullmatch(_FIELD, what):
        place = shorten_text(f"{place}.{field['name']}".removeprefix("."))
        if field["what"] == "missing required":
            return f"{place}: required, but missing"
        names = ", ".join(within.get("properties") or ()) or "none"
        return f"{place}: unknown argument (known: {names})"
    what, place = shorten_text(f"{what[:1].lower()}{what[1:]}"), shorten_text(place) or "arguments"
    if found and found["key"]:
        return f"{place}: in a key, {what}"
    allowed = within.get("enum")
    if allowed and what.startswith("invalid"):
        what += f", expected one of {', '.join(map(repr, allowed))}"
    return f"{place}: {what}"


def _at(schema: Json, place: str) -> dict[str, Any]:
    """The part of `schema` for `place`; empty if it cannot be found."""
    for name, index in re.findall(r"([^.\[\]]+)|\[([^\]]*)\]", place):
        if not isinstance(schema, dict):
            return {}
        if name and not index:
            schema = schema.get("properties", {}).get(name)
        else:
            schema = schema.get("items") or schema.get("additionalProperties")
    return schema if isinstance(schema, dict) else {}


# -- finding all faults of a value ------------------------------------------------------------

MAX_ERRORS = 20
"""The number of faults that are named at most: a model needs no more to try again."""
_MISFIT = re.compile(r"(?s)(?P<what>.*) - at (?P<key>`key` in )?`\$(?P<rest>.*)`")
_MAY_BE_MISSING = (typing.Required, typing.NotRequired)
_OBJECTS = (shapes.StructType, shapes.DataclassType, shapes.TypedDictType)
_LISTS = (shapes.ListType, shapes.SetType, shapes.FrozenSetType, shapes.VarTupleType)


def all_faults(value: Json, type_: Any) -> list[str]:
    """msgspec's message for each fault of `value`, with its place; empty if the value is valid."""
    return list(islice(dict.fromkeys(_faults(value, type_, "")), MAX_ERRORS))


def _faults(value: Json, type_: Any, place: str) -> Iterator[str]:
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        # If no part has a fault, the fault is in the value itself.
        parts = list(islice(_parts(value, _bare(type_), place), MAX_ERRORS))
        yield from parts or [_prefix_path(str(error), place)]


def _parts(value: Json, type_: Any, place: str) -> Iterator[str]:
    """The faults of a value's parts."""
    if get_origin(type_) in (Union, UnionType):
        kinds = [kind for kind in get_args(type_) if kind is not NoneType]
        if len(kinds) == 1 and value is not None:
            yield from _parts(value, _bare(kinds[0]), place)
        return
    shape = shapes.type_info(type_)
    if isinstance(shape, _OBJECTS) and isinstance(value, dict):
        yield from _fields(value, type_, shape, place)
    elif isinstance(shape, _LISTS) and isinstance(value, list):
        (kind, *_) = get_args(type_) or (Any,)
        for index, item in enumerate(value):
            yield from _faults(item, kind, f"{place}[{index}]")
    elif isinstance(shape, shapes.DictType) and isinstance(value, dict):
        kind = (*get_args(type_), Any, Any)[1]
        for item in value.values():
            yield from _faults(item, kind, f"{place}[...]")


def _fields(value: dict[str, Json], type_: Any, shape: Any, place: str) -> Iterator[str]:
    try:
        kinds = get_type_hints(get_origin(type_) or type_, include_extras=True)
    except NameError:
        return  # a type local to a function: only msgspec's first message is available
    known = {shape.tag_field} if isinstance(shape, shapes.StructType) else set()
    for field in shape.fields:
        known.add(field.encode_name)
        if field.encode_name in value:
            kind = _strip_wrappers(kinds.get(field.name, Any), _MAY_BE_MISSING)
            yield from _faults(value[field.encode_name], kind, f"{place}.{field.encode_name}")
        elif field.required:
            yield _prefix_path(f"Object missing required field `{field.encode_name}`", place)
    if isinstance(shape, shapes.StructType) and shape.forbid_unknown_fields:
        for name in value:
            if name not in known:
                yield _prefix_path(f"Object contains unknown field `{name}`", place)


def _bare(type_: Any) -> Any:
    """A type without its `Annotated` metadata."""
    type_ = _strip_wrappers(type_, (Annotated,))
    return getattr(type_, "__supertype__", type_)


def _strip_wrappers(type_: Any, wrappers: Sequence[Any]) -> Any:
    while get_origin(type_) in wrappers:
        type_ = get_args(type_)[0]
    return type_


def _prefix_path(message: str, place: str) -> str:
    """msgspec's message about a part of a value, as one about the whole."""
    found = _MISFIT.fullmatch(message)
    if found is not None:
        return f"{found['what']} - at {found['key'] or ''}`${place}{found['rest']}`"
    return f"{message} - at `${place}`" if place else message
