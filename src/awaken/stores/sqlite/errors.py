"""Translating SQLite's errors into ours, with texts that say what to do."""

from __future__ import annotations

import os
import sqlite3

import msgspec

from awaken.errors import AwakenError, Serialization, StoreUnavailable


def code_of(error: BaseException) -> int:
    """The primary result code, such as `sqlite3.SQLITE_FULL`; 0 if there is none."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def explain(path: str, error: Exception, *, doing: str) -> Exception:
    """The error a caller gets instead of SQLite's own, which is chained to it."""
    answer = _translate(path, error, doing)
    if answer is not error:
        answer.__cause__ = error
    return answer


def _translate(path: str, error: Exception, doing: str) -> Exception:
    if isinstance(error, UnicodeError | OverflowError):
        return Serialization(f"a value cannot be stored in {path}: {error}")
    if isinstance(error, msgspec.MsgspecError):
        return Serialization(f"a row of {path} does not fit this version of awaken: {error}")
    if isinstance(error, OSError):
        return StoreUnavailable(
            f"a file beside {path} cannot be written: {error}; "
            "make the directory writable, and check that the disk has space"
        )
    if isinstance(error, AwakenError):
        return error
    if isinstance(error, MemoryError):
        return StoreUnavailable(_TEXTS[sqlite3.SQLITE_NOMEM].format(path=path))
    if not isinstance(error, sqlite3.Error):
        # An argument, or a row that another program wrote: a text for a number, a number out of
        # range.
        return Serialization(
            f"database {path} could not be {doing}: a value has a wrong type "
            f"({type(error).__name__}: {error}): look at the arguments of the call; if they are "
            "right, another program has written into the file"
        )
    code = code_of(error)
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable(why_not_opened(path, error))
    text = _TEXTS.get(code)
    if text is None:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        return StoreUnavailable(f"database {path} could not be {doing}: {error} ({name})")
    return StoreUnavailable(text.format(path=path, error=error, log=f"{path}-wal"))


def why_not_opened(path: str, error: Exception | None = None) -> str:
    """Why the file at a path cannot be opened."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        return f"database {path} is a directory: name a file in it, such as {path}/awaken.db"
    if not os.path.isdir(folder):
        return f"there is no directory {folder} for the database {path}: create it first"
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return f"database {path} may not be read by this user: allow it (chmod, chown)"
    if not os.path.exists(path) and not os.access(folder, os.W_OK | os.X_OK):
        return f"directory {folder} may not be written by this user, so {path} cannot be created"
    return f"database {path} cannot be opened: {error}; SQLite also needs to write beside it"


_TEXTS = {
    sqlite3.SQLITE_NOTADB: (
        "{path} is not an SQLite database: name another file, or move this one away"
    ),
    sqlite3.SQLITE_CORRUPT: (
        "database {path} is damaged ({error}): nothing more is written to it; restore a copy, "
        "or save what is left with: sqlite3 {path} .recover"
    ),
    sqlite3.SQLITE_BUSY: (
        "database {path} is locked by another program for longer than busy_timeout: close that "
        "program, or raise busy_timeout in the address"
    ),
    sqlite3.SQLITE_LOCKED: "database {path} is locked by another reader: try again",
    sqlite3.SQLITE_READONLY: (
        "database {path} may only be read: make the file and its directory writable for this user"
    ),
    sqlite3.SQLITE_PERM: "database {path} may not be used by this user: allow it (chmod, chown)",
    sqlite3.SQLITE_FULL: "no space is left for {path}: nothing was written; free some disk space",
    sqlite3.SQLITE_IOERR: (
        "the disk failed under {path} ({error}): nothing was written; look at the system's log"
    ),
    sqlite3.SQLITE_NOMEM: "not enough memory was left to use the database {path}",
    sqlite3.SQLITE_TOOBIG: "a commit to {path} is larger than SQLite allows (1 GB)",
}
