"""Classifying a provider's HTTP error or error text as one of our errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from awaken.codec import loads
from awaken.core.llm import (
    ContentFiltered,
    ContextOverflow,
    InferenceExecutionError,
    InferenceTimeout,
    InvalidRequest,
    ModelMissing,
    NoCredit,
    Overloaded,
    ProviderError,
    RateLimited,
    Unauthorized,
)

MAX_MESSAGE = 500
_TAG = re.compile(r"<[^<>]*>")

_BY_STATUS: dict[int, type[InferenceExecutionError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    402: NoCredit,
    403: Unauthorized,
    404: ModelMissing,
    408: InferenceTimeout,
    413: ContextOverflow,
    422: InvalidRequest,
    429: RateLimited,
    503: Overloaded,
    504: InferenceTimeout,
    529: Overloaded,
}

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

# A request for too many *output* tokens is invalid, not an overflow: hence no bare "tokens".
_OVERFLOW = re.compile(
    r"context[ _-]?(length|window|size|limit)|(prompt|input|request)s? (is |are )?too (long|large)"
    r"|prompt[ _]length|too many (input |prompt )?tokens|input token count.{0,40}exceeds"
    r"|reduce the length|(prompt|input) exceeds (the )?max(imum)? length"
    r"|exceed\w* (the )?model('s)? token limit",
    re.IGNORECASE,
)

# Some providers refuse an empty account with the status of a bad, forbidden or frequent request.
_NO_CREDIT = re.compile(
    r"credit balance is too low|insufficient[ _](account )?(balance|credits?|funds|quota)"
    r"|(out of|no|not enough) (credits|funds)\b|balance is (insufficient|not enough)",
    re.IGNORECASE,
)

# The first that matches wins, so the order matters.
_BY_WORDS: tuple[tuple[re.Pattern[str], type[InferenceExecutionError]], ...] = (
    (
        re.compile(
            r"content[ _-]?(filter|policy|management)|(usage|safety) polic|polic(y|ies) violat"
            r"|violat\w+ .{0,40}polic|\bsafety\b",
            re.IGNORECASE,
        ),
        ContentFiltered,
    ),
    (
        re.compile(r"overload|(over|no|at|out of) capacity|\b(503|529)\b", re.IGNORECASE),
        Overloaded,
    ),
    (
        re.compile(r"\brate([ _-]?limit|\b)|\b429\b|too many requests", re.IGNORECASE),
        RateLimited,
    ),
    (
        re.compile(r"\btime(d)?[ _-]?out|deadline[ _]exceeded", re.IGNORECASE),
        InferenceTimeout,
    ),
    (_OVERFLOW, ContextOverflow),
    (_NO_CREDIT, NoCredit),
)


def classify_http(
    status: int,
    body: str | bytes = "",
    headers: Mapping[str, str] | None = None,
    *,
    now_ms: int | None = None,
) -> InferenceExecutionError:
    """Our error for an unsuccessful HTTP response, with the wait that the provider asked for.

    Args:
        now_ms: the time of the answer; without it a Retry-After date is ignored.
    """
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    kind = _BY_STATUS.get(status, ProviderError)
    if status == 400 and _OVERFLOW.search(text):
        kind = ContextOverflow
    elif status in (400, 403, 429) and _NO_CREDIT.search(text):
        kind = NoCredit
    said = body_error_text(text)
    message = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    return kind(message, retry_after=retry_after(headers or {}, now_ms))


def classify_text(message: str) -> InferenceExecutionError:
    """Our error for an error text, if a provider gives nothing else."""
    for pattern, kind in _BY_WORDS:
        if pattern.search(message):
            return kind(message)
    return ProviderError(message)


def retry_after(headers: Mapping[str, str], now_ms: int | None = None) -> float | None:
    """The wait in seconds from `Retry-After`, which has seconds or a date, or from OpenAI's
    `retry-after-ms`; `None` if both are missing."""
    given = {name.lower(): value.strip() for name, value in headers.items()}
    if _SECONDS.fullmatch(exact := given.get("retry-after-ms", "")):
        return float(exact) / 1000
    value = given.get("retry-after", "")
    if _SECONDS.fullmatch(value):
        return float(value)
    if now_ms is None or not value:
        return None
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, date.timestamp() - now_ms / 1000)


def error_text(error: object) -> str:
    """The readable message in a provider's error object, or an empty text.

    A gateway's error quotes the error of the provider behind it; an error about a malformed call
    quotes the call.
    """
    # Google answers with a list of one error.
    value = error[0] if isinstance(error, list) and error else error
    # {"error": {"message": …}}, {"error": …}, {"message": …} and {"detail": …} are all in use.
    if isinstance(value, dict) and "error" in value:
        value = value["error"]
    quoted = _upstream_text(value) if isinstance(value, dict) else ""
    for name in ("message", "detail"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    said = _plain(value) if isinstance(value, str) else ""
    return f"{said}: {quoted}" if said and quoted else said or quoted


def _upstream_text(error: dict[str, Any]) -> str:
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(raw := metadata.get("raw"), str):
        who = metadata.get("provider_name")
        return f"{who}: {body_error_text(raw)}" if who else body_error_text(raw)
    failed = error.get("failed_generation")
    return failed.strip() if isinstance(failed, str) else ""


def body_error_text(body: str) -> str:
    """The readable message in an error body, or the body itself, cut to `MAX_MESSAGE`."""
    try:
        found = loads(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        found = ""
    return (error_text(found) or _plain(body))[:MAX_MESSAGE]


def _plain(body: str) -> str:
    """The body; of a page of a proxy only the words."""
    text = body.strip()
    if not text.startswith("<"):
        return text
    shown = text[max(text.find("<body"), 0) :]
    return " ".join(_TAG.sub(" ", shown).split()) or text
