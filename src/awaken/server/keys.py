"""Keys: who a client is. They live in a TOML file, which is read again when it changes.

A key is `awk_<id>_<secret>`. The file keeps the SHA-256 of the whole key, and the secret that signs
stream tokens; only its owner may read it.
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
from typing import Protocol

import msgspec

from awaken.codec import dumps_text
from awaken.domain.budget import Budget
from awaken.domain.names import is_scope
from awaken.domain.principal import Principal
from awaken.errors import ConfigError
from awaken.server.roles import Role

log = logging.getLogger("awaken.server")

_KEY = re.compile(r"awk_([a-z0-9]{1,32})_([A-Za-z0-9_-]{43})")
_NO_HASH = "0" * 64
Version = tuple[int, int, int] | None


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a key's entry says about its use: its rate, and the most that one of its runs may use.
    What is left out is as for all keys."""

    rate: float | None = None
    burst: int | None = None
    budget: Budget | None = None


NO_TERMS = Terms()


class Authenticator(Protocol):
    """Tells who makes a request, from its headers. Write one for OIDC, mTLS or sessions."""

    def authenticate(self, head: Mapping[str, str]) -> Principal | None:
        """Returns `None` if the headers show no one that this server knows. The names of headers
        may be asked for in any case."""
        ...


class KeyEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key as the file has it.

    `name` is what records say about who did something; two keys of one name are one principal, so
    that a key can be replaced by another. `agents` are the only agents it may use; `None`: all.
    """

    sha256: str
    name: str | None = None
    scope: str = ""
    roles: tuple[Role, ...] = ()
    agents: tuple[str, ...] | None = None
    rate: float | None = None
    burst: int | None = None
    budget: Budget | None = None

    @property
    def terms(self) -> Terms:
        return Terms(rate=self.rate, burst=self.burst, budget=self.budget)


class KeyFileContent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands in a key file. `token_secret` signs stream tokens: nodes that share the file
    accept each other's."""

    token_secret: str | None = None
    keys: dict[str, KeyEntry] = {}


class KeyFile:
    """The keys of a file, as it is now.

    Raises:
        ConfigError: the file cannot be read, or says something that cannot be meant.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._version = _version_of(self.path)
        self._content = read_keys(self.path)

    @property
    def content(self) -> KeyFileContent:
        """The keys; read again if the file has changed. A file that is gone, or cannot be
        understood, leaves them as they were, and the log says so."""
        version = _version_of(self.path)
        if version != self._version:
            self._version = version
            try:
                self.read_again()
            except ConfigError as error:
                log.error("the keys stay as they were: %s", error)
        return self._content

    def read_again(self) -> None:
        """
        Raises:
            ConfigError: the file cannot be read; the keys stay as they were.
        """
        self._content = read_keys(self.path)

    def authenticate(self, head: Mapping[str, str]) -> Principal | None:
        given = bearer(head) or ""
        id, entry = self._entry(given)
        # Compared in any case: an unknown id must not be answered sooner than a wrong secret.
        digest = hashlib.sha256(given.encode()).hexdigest()
        kept = entry.sha256 if entry is not None else _NO_HASH
        if not hmac.compare_digest(digest, kept) or entry is None:
            return None
        return Principal(
            id=entry.name or id, scope=entry.scope, roles=entry.roles, agents=entry.agents
        )

    def has(self, sha256: str) -> bool:
        """Whether the file has the key with this digest."""
        return any(entry.sha256 == sha256 for entry in self.content.keys.values())

    def terms_of(self, head: Mapping[str, str]) -> Terms:
        """What the entry of the request's key says about its use."""
        _, entry = self._entry(bearer(head) or "")
        return entry.terms if entry is not None else NO_TERMS

    def _entry(self, given: str) -> tuple[str, KeyEntry | None]:
        found = _KEY.fullmatch(given)
        id = found[1] if found is not None else ""
        return id, self.content.keys.get(id)


def bearer(head: Mapping[str, str]) -> str | None:
    """The credentials of an `Authorization: Bearer` header."""
    scheme, _, given = head.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" and given.strip() else None


def read_keys(path: Path) -> KeyFileContent:
    """
    Raises:
        ConfigError: the file cannot be read, or says something that cannot be meant.
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
        _check(id, entry, path)
    return content


def _check(id: str, entry: KeyEntry, path: Path) -> None:
    where = f"key {id!r} in {str(path)!r}"
    if not re.fullmatch(r"[0-9a-f]{64}", entry.sha256):
        raise ConfigError(f"{where}: sha256 has 64 hexadecimal digits")
    if entry.scope and not is_scope(entry.scope):
        raise ConfigError(f"{where}: a scope has 1 to 63 characters of a-z, 0-9 and '-'")
    if not entry.roles:
        raise ConfigError(f"{where}: give it roles, of {', '.join(Role)}")
    if (entry.rate is not None and entry.rate <= 0) or (
        entry.burst is not None and entry.burst < 1
    ):
        raise ConfigError(f"{where}: rate is above 0, and burst is 1 or more")
    problem = entry.budget.problem() if entry.budget is not None else None
    if problem is not None:
        raise ConfigError(f"{where}: {problem}")


def _version_of(path: Path) -> Version:
    """Changes whenever the file does; `None` if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


# -- changing a file ------------------------------------------------------------------------------


def add_key(
    path: Path,
    *,
    roles: Iterable[str],
    name: str | None = None,
    scope: str = "",
    agents: Iterable[str] | None = None,
) -> str:
    """Add a key to a file, which is made if there is none. Returns the key, which no one can read
    from the file.

    Raises:
        ConfigError: the file cannot be read or written, or a scope or role is not one.
    """
    text = (
        path.read_text() if path.exists() else f"token_secret = {_quoted(secrets.token_hex(32))}\n"
    )
    id = secrets.token_hex(6)
    key = f"awk_{id}_{secrets.token_urlsafe(32)}"
    lines = [f"\n[keys.{id}]"]
    if name is not None:
        lines.append(f"name = {_quoted(name)}")
    if scope:
        lines.append(f"scope = {_quoted(scope)}")
    lines.append(f"roles = [{', '.join(map(_quoted, roles))}]")
    if agents is not None:
        lines.append(f"agents = [{', '.join(map(_quoted, agents))}]")
    lines.append(f"sha256 = {_quoted(hashlib.sha256(key.encode()).hexdigest())}")
    _write(path, text.rstrip("\n") + "\n" + "\n".join(lines) + "\n")
    return key


def revoke_key(path: Path, id: str) -> None:
    """Take a key out of a file; the rest of the file, with its comments, stays as it is.

    Raises:
        ConfigError: there is no such key, or the file cannot be read or written.
    """
    if id not in read_keys(path).keys:
        raise ConfigError(f"{str(path)!r} has no key {id!r}: `awaken keys list` shows them")
    table = re.compile(rf"^\[keys\.{re.escape(id)}\b.*?(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
    _write(path, table.sub("", path.read_text()))


def _write(path: Path, text: str) -> None:
    """Replace a file, readable by its owner only, so that no reader sees a half of it."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        read_keys(made)
        os.replace(made, path)
    except OSError as error:
        raise ConfigError(f"the key file {str(path)!r} cannot be written: {error}") from error
    finally:
        made.unlink(missing_ok=True)


def _quoted(text: str) -> str:
    """A text as TOML has it; a JSON text is one."""
    return dumps_text(text)
