"""API keys. They are in a TOML file, which is read again when it changes, or in the store.

A key is `awk_<id>_<secret>`. Only the SHA-256 of the whole key is stored. The secret that signs
stream tokens is stored beside the keys. Only its owner may read a key file.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol, Required, TypedDict, Unpack, runtime_checkable

import msgspec

from awaken.codec import dumps_text
from awaken.core.access import KeyEntry, KeyRole
from awaken.core.access_store import Access
from awaken.core.budget import Budget
from awaken.core.identity import Principal
from awaken.core.thread_ids import is_scope
from awaken.errors import ConfigError

log = logging.getLogger("awaken.server")

IN_STORE = "store"
"""The value that is given instead of a file's name if the keys are in the store."""
_KEY = re.compile(r"awk_([a-z0-9]{1,32})_([A-Za-z0-9_-]{43})")
_NO_HASH = "0" * 64
Version = tuple[int, int, int] | None


@runtime_checkable
class Authenticator(Protocol):
    """Finds the principal of a request from its headers. Write one for OIDC, mTLS or sessions."""

    def authenticate(self, head: Mapping[str, str]) -> Principal | None:
        """Returns `None` if the headers identify no principal. The names of headers are found in
        upper and lower case."""
        ...


class Keys(Protocol):
    """The keys of clients, in a file or in a store."""

    async def find(self, id: str) -> KeyEntry | None:
        """The present entry of a key; `None` if there is no such key."""
        ...

    async def token_secret(self) -> str | None:
        """The secret that signs stream tokens, if it is stored with the keys."""
        ...


async def find_key(keys: Keys, head: Mapping[str, str]) -> tuple[str, KeyEntry] | None:
    """The id and the entry of the key in a request's headers; `None` if there is no valid one."""
    key = bearer(head) or ""
    found = _KEY.fullmatch(key)
    entry = await keys.find(found[1]) if found is not None else None
    # The digests are compared even for an unknown id: its answer must not come sooner than the
    # answer to a wrong secret.
    digest = hashlib.sha256(key.encode()).hexdigest()
    expected = entry.sha256 if entry is not None else _NO_HASH
    if not hmac.compare_digest(digest, expected) or entry is None or found is None:
        return None
    return found[1], entry


def bearer(head: Mapping[str, str]) -> str | None:
    """The credentials of an `Authorization: Bearer` header."""
    scheme, _, credentials = head.get("authorization", "").partition(" ")
    credentials = credentials.strip()
    return credentials if credentials and scheme.lower() == "bearer" else None


class KeyOptions(TypedDict, total=False):
    """The fields of a new key; see `KeyEntry`."""

    roles: Required[Iterable[str]]
    name: str | None
    scope: str
    agents: Iterable[str] | None
    rate: float | None
    burst: int | None
    budget: Budget | None


def make_key(options: KeyOptions) -> tuple[str, str, KeyEntry]:
    """A new key: its id, the key itself, and its entry.

    Raises:
        ConfigError: the options do not make a valid key.
    """
    id = secrets.token_hex(6)
    key = f"awk_{id}_{secrets.token_urlsafe(32)}"
    sha256 = hashlib.sha256(key.encode()).hexdigest()
    try:
        entry = msgspec.convert({"sha256": sha256, **options}, KeyEntry)
    except msgspec.ValidationError as error:
        raise ConfigError(f"this cannot be a key: {error}") from error
    _check("this cannot be a key", entry)
    return id, key, entry


def _check(where: str, entry: KeyEntry) -> None:
    if not re.fullmatch(r"[0-9a-f]{64}", entry.sha256):
        raise ConfigError(f"{where}: sha256 has 64 hexadecimal digits")
    if entry.scope and not is_scope(entry.scope):
        raise ConfigError(f"{where}: a scope has 1 to 63 characters of a-z, 0-9 and '-'")
    if not entry.roles:
        raise ConfigError(f"{where}: give it roles, of {', '.join(KeyRole)}")
    if (entry.rate is not None and entry.rate <= 0) or (
        entry.burst is not None and entry.burst < 1
    ):
        raise ConfigError(f"{where}: rate is above 0, and burst is 1 or more")
    problem = entry.budget.problem() if entry.budget is not None else None
    if problem is not None:
        raise ConfigError(f"{where}: {problem}")


# -- in a store -----------------------------------------------------------------------------------


class StoreKeys:
    """The keys in a store. The key of each request is loaded, so a revoked key is refused at once,
    on every node."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def find(self, id: str) -> KeyEntry | None:
        return await self._access.find_key(id)

    async def token_secret(self) -> str | None:
        return None  # the store has one for all servers, with keys or without


async def add_to_store(access: Access, **options: Unpack[KeyOptions]) -> str:
    """Add a key to a store. Returns the key, which cannot be read from there.

    Raises:
        ConfigError: the options do not make a valid key.
    """
    id, key, entry = make_key(options)
    await access.add_key(id, entry)
    return key


async def revoke_in_store(access: Access, id: str) -> None:
    """
    Raises:
        ConfigError: there is no such key.
    """
    if not await access.revoke_key(id):
        raise ConfigError(f"the store has no key {id!r}: `awaken keys list` shows them")


# -- in a file ------------------------------------------------------------------------------------


class FileEntry(KeyEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key in a file. People edit the file, so unknown fields are refused."""


class KeyFileContent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a key file. `token_secret` signs stream tokens: nodes that share the file
    accept each other's tokens."""

    token_secret: str | None = None
    keys: dict[str, FileEntry] = {}


class KeyFile:
    """The keys of a file, as it is now.

    Raises:
        ConfigError: the file cannot be read, or has an invalid key.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._version = _version_of(self.path)
        self._content = read_keys(self.path)

    @property
    def content(self) -> KeyFileContent:
        """The keys; they are read again if the file has changed. If the file is missing or invalid,
        the keys stay as they were, and an error is logged."""
        version = _version_of(self.path)
        if version != self._version:
            self._version = version
            try:
                self.reload()
            except ConfigError as error:
                log.error("the keys stay as they were: %s", error)
        return self._content

    def reload(self) -> None:
        """
        Raises:
            ConfigError: the file cannot be read; the keys stay as they were.
        """
        self._content = read_keys(self.path)

    async def find(self, id: str) -> KeyEntry | None:
        return self.content.keys.get(id)

    async def token_secret(self) -> str | None:
        return self.content.token_secret


def read_keys(path: Path) -> KeyFileContent:
    """
    Raises:
        ConfigError: the file cannot be read, or has an invalid key.
    """
    try:
        content = msgspec.convert(tomllib.loads(path.read_text()), KeyFileContent)
    except FileNotFoundError:
        raise ConfigError(
            f"there is no key file {str(path)!r}: make one with `awaken keys add --keys {path}`"
        ) from None
    except (OSError, ValueError) as error:  # msgspec's and tomllib's errors are values' errors
        raise ConfigError(f"the key file {str(path)!r} cannot be read: {error}") from error
    for id, entry in content.keys.items():
        _check(f"key {id!r} in {str(path)!r}", entry)
    return content


def _version_of(path: Path) -> Version:
    """A value that changes whenever the file does; `None` if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def add_key(path: Path, **options: Unpack[KeyOptions]) -> str:
    """Add a key to a file, which is created if there is none. Returns the key, which cannot be read
    from the file.

    Raises:
        ConfigError: the file cannot be read or written, or the options do not make a valid key.
    """
    text = path.read_text() if path.exists() else f"token_secret = {_toml(secrets.token_hex(32))}\n"
    id, key, entry = make_key(options)
    fields = msgspec.to_builtins(entry)  # without what is left out
    lines = [f"\n[keys.{id}]", *(f"{name} = {_toml(value)}" for name, value in fields.items())]
    _write(path, text.rstrip("\n") + "\n" + "\n".join(lines) + "\n")
    return key


def revoke_key(path: Path, id: str) -> None:
    """Remove a key from a file; the rest of the file, with its comments, stays as it is.

    Raises:
        ConfigError: there is no such key, the file cannot be read or written, or the key stands in
            it in a way that only a person can change. The file stays as it was.
    """
    content = read_keys(path)
    if id not in content.keys:
        raise ConfigError(f"{str(path)!r} has no key {id!r}: `awaken keys list` shows them")
    table = re.compile(rf"^\[keys\.{re.escape(id)}\b.*?(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
    text = table.sub("", path.read_text())
    others = {name: entry for name, entry in content.keys.items() if name != id}
    # TOML has many ways to write a table, and people edit the file.
    if not _has_keys(text, others):
        raise ConfigError(
            f"key {id!r} is NOT revoked: {str(path)!r} does not have it as `awaken keys add` "
            "writes it; take it out by hand"
        )
    _write(path, text)


def _has_keys(text: str, keys: Mapping[str, FileEntry]) -> bool:
    """Whether the text of a key file has these keys and no others."""
    try:
        return msgspec.convert(tomllib.loads(text), KeyFileContent).keys == keys
    except ValueError:
        return False


def _write(path: Path, text: str) -> None:
    """Replace a file, readable by its owner only. No reader sees a half of it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        read_keys(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise ConfigError(f"the key file {str(path)!r} cannot be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _toml(value: object) -> str:
    """A value as TOML text. JSON text is TOML, except for objects."""
    if isinstance(value, dict):
        inside = ", ".join(f"{name} = {_toml(one)}" for name, one in value.items())
        return f"{{ {inside} }}"
    return dumps_text(value)
