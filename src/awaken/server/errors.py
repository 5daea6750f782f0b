"""Errors as clients see them: one table from exceptions to answers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.responses import PlainTextResponse, Response

from awaken import errors
from awaken.codec import Json, loads
from awaken.ids import UUID7
from awaken.server.call import JsonResponse
from awaken.server.client_ids import ClientIds
from awaken.server.protocols.base import BadRequest

log = logging.getLogger("awaken.server")

NOT_FOUND = "there is no such {}, or this key may not see it"


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong: a `code` for programs, a `message` and a `hint` for people."""

    code: str
    message: str
    hint: str | None = None
    details: dict[str, Any] | None = None


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every answer that refuses a request."""

    error: ErrorDetail


class HttpRefusal(Exception):
    """The request is refused. The attributes are what the answer says."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
        **details: Json,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.hint, self.details = status, code, hint, details
        self.headers = headers


def not_found_error(what: str) -> HttpRefusal:
    """The refusal if a thing does not exist, belongs to another scope or may not be seen: clients
    cannot tell which."""
    return HttpRefusal(404, "not_found", NOT_FOUND.format(what))


def authentication_error(why: str) -> HttpRefusal:
    """The refusal of a request without valid credentials."""
    return HttpRefusal(
        401,
        "unauthorized",
        why,
        hint="send a key: Authorization: Bearer awk_…",
        headers={"www-authenticate": "Bearer"},
    )


class _ErrorAnswer(NamedTuple):
    """The answer to an exception. `text` replaces the exception's own text where that names
    internals. `details` are the attributes of the exception that are sent to the client."""

    status: int
    code: str
    text: str | None = None
    details: tuple[str, ...] = ()


_AWAY = "the server cannot do this now: try again"
_TABLE: dict[type[Exception], _ErrorAnswer] = {
    errors.InvalidId: _ErrorAnswer(400, "invalid_id"),
    errors.ConfigError: _ErrorAnswer(400, "bad_request"),
    errors.InvalidRecord: _ErrorAnswer(400, "bad_request"),
    errors.CommitTooLarge: _ErrorAnswer(413, "too_large"),
    errors.AgentNotFound: _ErrorAnswer(404, "agent_not_found", NOT_FOUND.format("agent")),
    errors.NotFound: _ErrorAnswer(404, "not_found", NOT_FOUND.format("thread, run or event")),
    errors.BlobNotFound: _ErrorAnswer(404, "not_found", NOT_FOUND.format("file")),
    errors.ThreadBusy: _ErrorAnswer(409, "thread_busy", details=("run_id",)),
    errors.ThreadOwned: _ErrorAnswer(409, "thread_busy", "a run of the thread has not ended"),
    errors.ThreadAlreadyRunning: _ErrorAnswer(
        409, "thread_busy", "a run of the thread has not ended"
    ),
    errors.ThreadDeleted: _ErrorAnswer(409, "thread_deleted"),
    errors.RunOpen: _ErrorAnswer(409, "run_open", details=("run_id",)),
    errors.AlreadyExists: _ErrorAnswer(409, "already_exists"),
    errors.ToolIdConflict: _ErrorAnswer(409, "tool_conflict"),
    errors.DecisionRefused: _ErrorAnswer(409, "decision_refused"),
    errors.InvalidResume: _ErrorAnswer(409, "decision_refused"),
    errors.ArgumentsRefused: _ErrorAnswer(409, "invalid_arguments"),
    errors.InvalidCursor: _ErrorAnswer(410, "cursor_gone", details=("last",)),
    errors.VersionConflict: _ErrorAnswer(412, "version_conflict", details=("actual",)),
    errors.KeyReused: _ErrorAnswer(422, "key_reused"),
    errors.SearchUnavailable: _ErrorAnswer(503, "search_unavailable"),
    errors.StoreUnavailable: _ErrorAnswer(503, "store_unavailable", _AWAY),
    errors.CommitUnknown: _ErrorAnswer(503, "store_unavailable", _AWAY),
    errors.LeaseLost: _ErrorAnswer(503, "lease_lost", _AWAY),
    errors.UnreadableRecord: _ErrorAnswer(
        500,
        "unreadable",
        "a stored part of this cannot be read: the server's log names it, and `awaken db check` "
        "lists it",
    ),
    errors.RunLeft: _ErrorAnswer(503, "draining", _AWAY),
}
"""The exceptions that a client can cause. An exception that is not here is answered like its base
class; if no base class is here either, it is an internal error."""


def to_refusal(error: Exception) -> HttpRefusal:
    """The refusal for an exception. An exception that no client can cause is logged with an id, and
    the client gets the id and nothing else."""
    if isinstance(error, HttpRefusal):
        return error
    if isinstance(error, BadRequest):
        return HttpRefusal(400, error.code, str(error))
    answer = next((_TABLE[kind] for kind in type(error).__mro__ if kind in _TABLE), None)
    if answer is None:
        id = UUID7.new()
        log.error("error %s: a request failed", id, exc_info=error)
        return HttpRefusal(500, "internal", f"the server failed; its log has the error under {id}")
    details = {name: getattr(error, name) for name in answer.details}
    headers = {"retry-after": "1"} if answer.status == 503 else None
    return HttpRefusal(
        answer.status, answer.code, answer.text or str(error), headers=headers, **details
    )


def to_error_response(error: Exception, ids: ClientIds | None = None) -> JsonResponse:
    """The response to a request that has failed, with ids as the client sees them."""
    refusal = to_refusal(error)
    strip = ids.text if ids is not None else str
    details = {
        name: strip(value) if isinstance(value, str) else value
        for name, value in refusal.details.items()
    }
    body = ErrorDetail(
        code=refusal.code,
        message=strip(str(refusal)),
        hint=refusal.hint,
        details=details or None,
    )
    return JsonResponse(
        ErrorBody(error=body), status_code=refusal.status, headers=dict(refusal.headers or {})
    )


def to_plain_text(answer: JsonResponse) -> Response:
    """An error response as plain text, for clients that show the text to people: the message and
    the hint. The code is in a header."""
    error = loads(bytes(answer.body), ErrorBody).error
    text = f"{error.message}; {error.hint}" if error.hint else error.message
    headers = {name: value for name, value in answer.headers.items() if "content-" not in name}
    headers["x-awaken-error"] = error.code
    return PlainTextResponse(text, status_code=answer.status_code, headers=headers)
