"""Encoding our types as JSON and decoding them; no other module does this.

`Any` is used here on purpose: a JSON value is what Python's `json` would return.
"""

from __future__ import annotations

import datetime
import decimal
import re
import uuid
from functools import lru_cache
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict of the same."""


def _encode_other(value: Any) -> Any:
    """Encode a type that msgspec does not know, by its method `to_wire`."""
    to_wire = getattr(value, "to_wire", None)
    if to_wire is None:
        raise TypeError(f"{type(value).__name__} cannot be written as JSON: {value!r}")
    return to_wire()


def _encode_kept(value: Any) -> Any:
    """Encode such a type for stored state, by `to_state` if it has that: it must be readable."""
    to_state = getattr(value, "to_state", None)
    return _encode_other(value) if to_state is None else to_state()


def _decode_other(type_: Any, value: Any) -> Any:
    from_wire = getattr(type_, "from_wire", None)
    if from_wire is None:
        raise TypeError(f"{type_!r} cannot be read from JSON")
    return from_wire(value)


_TEXTS_IN_JSON = (
    *(bytes, bytearray, memoryview, uuid.UUID, decimal.Decimal),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
)
_encoder = msgspec.json.Encoder(enc_hook=_encode_other)
_sorted_encoder = msgspec.json.Encoder(enc_hook=_encode_other, order="sorted")
_state_encoder = msgspec.json.Encoder(enc_hook=_encode_kept)
_decoder = msgspec.json.Decoder()


dumps = _encoder.encode
"""Compact JSON bytes of a domain value or JSON value."""


dumps_state = _state_encoder.encode
"""Like `dumps`, for state that is stored: a value that could not be read back, such as a secret,
is refused."""


def dumps_text(value: Any) -> str:
    """Compact JSON text, for models and people."""
    return _encoder.encode(value).decode()


@overload
def loads(data: bytes | str | msgspec.Raw) -> Any: ...
@overload
def loads(data: bytes | str | msgspec.Raw, type_: type[T]) -> T: ...
def loads(data: bytes | str | msgspec.Raw, type_: Any = None) -> Any:
    """Decode JSON text, as `type_` if given.

    Raises:
        msgspec.DecodeError: the text is not JSON, or (ValidationError) does not fit the type.
    """
    if type_ is None:
        return _decoder.decode(data)
    return msgspec.json.decode(data, type=type_, dec_hook=_decode_other)


@lru_cache(maxsize=128)
def _decoder_of(type_: Any) -> msgspec.json.Decoder[Any]:
    """To make a decoder takes as long as to use it."""
    return msgspec.json.Decoder(type_, dec_hook=_decode_other)


def read_back(value: Any, type_: Any) -> Any:
    """`value` as a reader of the store would get it: encoded, and decoded as `type_`.

    Raises:
        msgspec.ValidationError: the value does not fit its type; the text says where.
        TypeError, ValueError, OverflowError, RecursionError: it cannot be encoded.
    """
    read = _decoder_of(type_).decode(_encoder.encode(value))
    if read != value:
        # In JSON, bytes and times are texts, which would fit where a text is wanted.
        plain = msgspec.to_builtins(
            value, builtin_types=_TEXTS_IN_JSON, str_keys=True, enc_hook=_encode_other
        )
        msgspec.convert(plain, type_, dec_hook=_decode_other)
    return read


def to_json(value: Any) -> Json:
    """The JSON value (dicts, lists, scalars) of a domain value."""
    # Through JSON text: `msgspec.to_builtins` would leave tuples, dates and the like in it.
    return _decoder.decode(_encoder.encode(value))


@overload
def from_json(value: Json, type_: type[T]) -> T: ...
@overload
def from_json(value: Json, type_: Any) -> Any: ...
def from_json(value: Json, type_: Any) -> Any:
    """A `type_` from a JSON value.

    Raises:
        msgspec.ValidationError: the value does not fit; the text says where.
    """
    return msgspec.convert(value, type=type_, dec_hook=_decode_other)


def digest(value: Any) -> str:
    """A stable fingerprint of a JSON-able value: 128 bits, as 32 hexadecimal digits."""
    import hashlib  # noqa: PLC0415  # loads OpenSSL's hashes, which `import awaken` can do without

    return hashlib.sha256(_sorted_encoder.encode(value)).hexdigest()[:32]


def printable(text: str) -> str:
    """`text` with U+FFFD in place of control characters, which a terminal would obey; tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)


def one_line(text: str, longest: int) -> str:
    """`text` on one line of at most `longest` characters, without control characters."""
    # Only the beginning is used, so that a very long text costs little.
    line = printable(" ".join(text[: 4 * longest + 4].split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def clean_text(text: str) -> str:
    """`text` without lone surrogates, which file names and streams may contain but JSON may not.

    A pair of surrogates becomes the character it stands for.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_json(text: str) -> str:
    """JSON text without lone surrogates, whether they are written as they are or as escapes."""
    return _ESCAPES.sub(
        lambda found: found[0] if len(found[0]) != _ONE_ESCAPE else "\\ufffd", clean_text(text)
    )


# An escaped backslash and a pair of surrogates, which are left as they are, or half of a pair.
_ESCAPES = re.compile(
    r"\\\\|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_ONE_ESCAPE = len("\\ud800")


def clean_value(value: T) -> T:
    """A value without lone surrogates in its texts. One that cannot be encoded for another reason
    is left as it is."""
    try:
        _encoder.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_other)
        return from_json(_clean(plain), type(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    return value


def _clean(value: Json) -> Json:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {_clean(name): _clean(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(part) for part in value]
    return value
