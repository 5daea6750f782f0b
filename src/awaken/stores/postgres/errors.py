"""Translating errors of Postgres and asyncpg into ours, with texts that say what to do."""

from __future__ import annotations

import asyncpg
import msgspec

from awaken.errors import AwakenError, Serialization, StoreUnavailable

AGAIN = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,
)
"""Errors after which the same work may succeed: nothing of it was written."""

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that was closed at the wrong moment
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.QueryCanceledError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, or a server that was made to refuse writes
    OSError,
    EOFError,
)
"""Errors after which it is not known what the server did last. `TimeoutError` is an `OSError`."""

_NOT_TEXT = (
    asyncpg.CharacterNotInRepertoireError,
    asyncpg.UntranslatableCharacterError,
    asyncpg.DataError,
    asyncpg.ProgramLimitExceededError,
    UnicodeError,
    OverflowError,
)


def is_lost(error: BaseException) -> bool:
    """Whether the connection that raised this error is of no use any more."""
    # A value that cannot be encoded is an `InterfaceError`, too: nothing was sent.
    return isinstance(error, LOST) and not isinstance(error, asyncpg.DataError | UnicodeError)


def is_read_only(error: BaseException) -> bool:
    """Whether the server has refused to write, and has written nothing. Another connection may lead
    to a server that writes, or to the same one when it writes again."""
    return isinstance(error, asyncpg.ReadOnlySQLTransactionError)


def explain(display: str, error: BaseException) -> BaseException:
    """The error a caller gets instead of asyncpg's own, which is chained to it."""
    answer = _translate(display, error)
    if answer is not error:
        answer.__cause__ = error
    return answer


def _translate(display: str, error: BaseException) -> BaseException:
    if isinstance(error, AwakenError) or not isinstance(error, Exception):
        return error
    if isinstance(error, _NOT_TEXT):
        return Serialization(f"a value cannot be stored in {display}: {error}")
    if isinstance(error, msgspec.MsgspecError):
        return Serialization(f"a row of {display} does not fit this version of awaken: {error}")
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
        return StoreUnavailable(f"{display} refuses this user: {error}; check name and password")
    if isinstance(error, asyncpg.InvalidCatalogNameError):
        return StoreUnavailable(f"there is no such database: {error}; create it (createdb)")
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return StoreUnavailable(f"{display}: {error}; grant this user rights on the schema")
    if isinstance(error, asyncpg.UndefinedTableError | asyncpg.UndefinedFunctionError):
        return StoreUnavailable(
            f"{display} lacks a table or a function of this version: {error}; "
            "run `awaken db migrate`"
        )
    if isinstance(error, asyncpg.DiskFullError):
        return StoreUnavailable(f"no space is left for {display}: free some disk space")
    if isinstance(error, asyncpg.TooManyConnectionsError):
        return StoreUnavailable(
            f"{display} has no connection left: raise max_connections, or lower pool= "
            "in the address"
        )
    if isinstance(error, LOST):
        return StoreUnavailable(_why_away(display, error))
    if isinstance(error, asyncpg.PostgresError):
        return StoreUnavailable(f"{display} refused a statement: {error} ({error.sqlstate})")
    return error


def _why_away(display: str, error: BaseException) -> str:
    if is_read_only(error):
        return (
            f"{display} takes no writes now: {error}; it is a standby, or was made to refuse them "
            "(default_transaction_read_only)"
        )
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return f"{display} names no server that fits its target_session_attrs now: {error}"
    return f"{display} does not answer: {str(error) or type(error).__name__}; see whether it runs"
