"""Translating the SDK's errors to ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from awaken.clock import Clock
from awaken.codec import dumps_text, loads
from awaken.core.llm import (
    ContentFiltered,
    InferenceExecutionError,
    InferenceTimeout,
    InvalidRequest,
    ProviderError,
    Unauthorized,
)
from awaken.core.secret import RedactedString
from awaken.models.http_errors import body_error_text, classify_http

STREAM_CUT = "connection reset: the stream ended early"

# The status of errors within a stream, by type; Bedrock's types have other names.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "validationexception": 400,
    "throttlingexception": 429,
    "internalserverexception": 500,
    "modelstreamerrorexception": 500,
    "serviceunavailableexception": 503,
    "modeltimeoutexception": 504,
}
_HINT = (
    ": export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, "
    "or AWS_BEARER_TOKEN_BEDROCK"
)
_FILTERED = re.compile(r"blocked by (the )?content filter", re.IGNORECASE)


class AnthropicErrors:
    """Translates the SDK's errors to ours.

    Args:
        sdk: the module `anthropic`.
        http: the HTTP library that it uses, whose errors are translated, too.
        secrets: removed from all texts.
    """

    def __init__(
        self, sdk: Any, http: Any, clock: Clock, secrets: Sequence[RedactedString] = ()
    ) -> None:
        self._sdk, self._http = sdk, http
        self._clock = clock
        self._secrets = tuple(secrets)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raises our errors for the SDK's; other errors pass."""
        try:
            yield
        except InferenceExecutionError:
            raise
        except Exception as error:
            failure = self.translate(error)
            if failure is None:
                raise
            raise failure from failure.__cause__

    def incomplete_stream_error(self, page: str | None) -> InferenceExecutionError:
        """The error for a stream without an end.

        Args:
            page: what came instead of a stream, if that is known.
        """
        if page is None:
            return ProviderError(STREAM_CUT)
        text = self.scrub(page)
        try:
            kind = str(loads(text)["error"]["type"])
        except (msgspec.DecodeError, UnicodeError, RecursionError, LookupError, TypeError):
            return ProviderError(f"the server has sent no answer: {body_error_text(text)}")
        return classify_http(_STATUS.get(kind.lower(), 500), text)

    def translate(self, error: Exception) -> InferenceExecutionError | None:
        """Our error for `error`, or `None` if it does not come from the provider.

        Its cause is the original error, unless that contains a secret.
        """
        found = self._classify(error)
        if found is None:
            return None
        text = self.scrub(found.message)
        if text != found.message:
            found = type(found)(text, retry_after=found.retry_after)
        if self.scrub(str(error)) == str(error):
            found.__cause__ = error
        return found

    def scrub(self, text: str) -> str:
        for secret in self._secrets:
            text = secret.redact(text)
        return text

    def _classify(self, error: Exception) -> InferenceExecutionError | None:
        sdk, http = self._sdk, self._http
        if isinstance(error, sdk.APIStatusError):
            return self._status_error(error)
        if isinstance(error, sdk.APITimeoutError | http.TimeoutException):
            return InferenceTimeout(_error_text(error.__cause__ or error))
        if isinstance(error, sdk.APIConnectionError):
            return ProviderError(f"connection error: {_error_text(error.__cause__ or error)}")
        if isinstance(error, http.HTTPError | http.StreamError):
            return ProviderError(f"connection reset: {_error_text(error)}")
        if isinstance(error, sdk.APIResponseValidationError | ValueError):
            return ProviderError(f"an answer that makes no sense: {_error_text(error)}")
        if _is_about_credentials(error):
            return Unauthorized(f"{_error_text(error)}{_HINT if 'AWS' in str(error) else ''}")
        return ProviderError(_error_text(error)) if isinstance(error, sdk.AnthropicError) else None

    def _status_error(self, error: Any) -> InferenceExecutionError:
        """The error for an HTTP error response, or for an error event within a stream."""
        body = error.body
        detail = body.get("error") if isinstance(body, dict) else None
        kind = str(detail.get("type") or "") if isinstance(detail, dict) else ""
        within = error.status_code < 400
        status = _STATUS.get(kind.lower(), 500) if within else error.status_code
        text = body if isinstance(body, str) else dumps_text(body) if body is not None else ""
        found = classify_http(
            status, text, dict(error.response.headers), now_ms=self._clock.now_ms()
        )
        if isinstance(found, InvalidRequest) and _FILTERED.search(found.message):
            return ContentFiltered(found.message)
        if within:
            said = found.message.partition(": ")[2]
            return type(found)(f"{kind or 'error'} in mid-stream: {said}")
        return found


def _is_about_credentials(error: Exception) -> bool:
    """Whether a cloud's own library could not sign a request."""
    module = type(error).__module__
    return module.startswith(("botocore.", "google.auth.")) or (
        isinstance(error, RuntimeError) and "credentials" in str(error)
    )


def _error_text(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
