"""Translating the errors of `google-genai` to ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from awaken.clock import Clock
from awaken.codec import dumps_text
from awaken.core.llm import (
    InferenceExecutionError,
    InferenceTimeout,
    InvalidRequest,
    ProviderError,
    Unauthorized,
)
from awaken.core.secret import RedactedString
from awaken.models.http_errors import MAX_MESSAGE, classify_http, classify_text
from awaken.models.sdk import sdk

_SECONDS = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?)s")


class GeminiErrors:
    """Translates the SDK's exceptions, and removes the key from their texts."""

    def __init__(self, key: RedactedString | None, clock: Clock) -> None:
        self._key, self._clock = key, clock
        self._api = sdk("google.genai.errors", extra="google", provider="Gemini")
        self._auth = sdk("google.auth.exceptions", extra="google", provider="Gemini")
        self._http = sdk("httpx2", extra="google", provider="Gemini")

    @contextmanager
    def translate_errors(self, began: Callable[[], bool]) -> Iterator[None]:
        """Raises our errors for the SDK's.

        Args:
            began: whether a response has come; an earlier failure is often caused by the request.
        """
        try:
            yield
        except InferenceExecutionError:
            raise
        except Exception as error:
            raise self._translate(error, began=began()) from self._cause(error)

    def _translate(self, error: Exception, *, began: bool) -> InferenceExecutionError:
        if isinstance(error, self._api.APIError):
            return self._status_error(error)
        text = self.scrub(str(error) or type(error).__name__)[:MAX_MESSAGE]
        if isinstance(error, self._http.TimeoutException):
            return InferenceTimeout(f"no word from Gemini in time ({type(error).__name__})")
        if isinstance(error, self._http.TransportError):
            return ProviderError(f"connection error: {text}")
        if isinstance(error, self._auth.TransportError):
            return ProviderError(f"connection error: {text}")
        if isinstance(error, self._auth.GoogleAuthError):
            return Unauthorized(text)
        if isinstance(error, self._api.UnknownApiResponseError):
            return ProviderError(f"stream ended early: connection reset ({text})")
        if isinstance(error, ValueError | TypeError) and not began:
            return InvalidRequest(text)
        return classify_text(f"{type(error).__name__}: {text}")

    def scrub(self, text: str) -> str:
        """The text without the key."""
        return self._key.redact(text) if self._key is not None else text

    def _cause(self, error: Exception) -> Exception | None:
        """The error, or `None` if its text contains the key."""
        return error if self.scrub(str(error)) == str(error) else None

    def _status_error(self, error: Any) -> InferenceExecutionError:
        body = self.scrub(dumps_text(error.details) if error.details else error.message or "")
        status = error.code if isinstance(error.code, int) else 500
        headers: Mapping[str, str] = getattr(error.response, "headers", None) or {}
        ours = classify_http(status, body, headers, now_ms=self._clock.now_ms())
        details = list(_details(error.details))
        if status == 400 and any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
            return Unauthorized(ours.message)
        if ours.retry_after is None:
            ours.retry_after = _retry_delay(details)
        return ours


def _details(body: Any) -> Iterator[dict[str, Any]]:
    """The machine-readable part of an error, `google.rpc.Status.details`."""
    error = body.get("error", body) if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict):
            yield detail


def _retry_delay(details: list[dict[str, Any]]) -> float | None:
    """Seconds to wait, as `google.rpc.RetryInfo` writes them: `34.5s`."""
    for detail in details:
        found = _SECONDS.fullmatch(str(detail.get("retryDelay", "")))
        if found:
            return float(found[1])
    return None
