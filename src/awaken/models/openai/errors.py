"""Translating the errors of OpenAI's SDK, and of its streams, to ours."""

from __future__ import annotations

from typing import Any

import msgspec

from awaken.codec import dumps_text, loads
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
from awaken.core.secret import RedactedString, redact_address
from awaken.core.value import Value
from awaken.models.http_errors import body_error_text, classify_http, classify_text, error_text

# Codes and types of errors of OpenAI, Azure and compatible servers.
_BY_CODE: dict[str, type[InferenceExecutionError]] = {
    "authentication_error": Unauthorized,
    "bio_policy": ContentFiltered,
    "content_filter": ContentFiltered,
    "content_policy_violation": ContentFiltered,
    "context_length_exceeded": ContextOverflow,
    "exceed_context_size_error": ContextOverflow,
    "image_content_policy_violation": ContentFiltered,
    "insufficient_quota": NoCredit,
    "invalid_api_key": Unauthorized,
    "misalignment_policy_violation": ContentFiltered,
    "model_not_found": ModelMissing,
    "overloaded_error": Overloaded,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "server_error": ProviderError,
    "server_is_overloaded": Overloaded,
    "slow_down": Overloaded,
    # The model has written a call that the server cannot read; the next try may succeed.
    "tool_use_failed": ProviderError,
    "vector_store_timeout": InferenceTimeout,
}
_OF_THE_REQUEST = ("invalid_", "image_", "failed_to_download_image", "unsupported_", "empty_image")


class Destination(Value, frozen=True, kw_only=True):
    """Where requests go, for error texts.

    Args:
        start: what to do if the server cannot be reached.
        key: removed from all texts.
    """

    url: str
    timeout: float
    start: str
    key: RedactedString | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "url", redact_address(self.url))

    def scrub(self, text: str) -> str:
        return self.key.redact(text) if self.key is not None else text

    def scrub_error(self, error: InferenceExecutionError) -> InferenceExecutionError:
        text = self.scrub(error.message)
        return error if text == error.message else type(error)(text)


def translate_error(
    error: Exception, sdk: Any, address: Destination, now_ms: int
) -> InferenceExecutionError:
    """Our error for any exception while a stream was opened or read."""
    if isinstance(error, sdk.APITimeoutError):
        return InferenceTimeout(f"{address.url} was silent for {address.timeout:g} s")
    if isinstance(error, sdk.APIConnectionError):
        return _connection_error(error, address)
    if isinstance(error, sdk.APIStatusError):
        return _status_error(error, address, now_ms)
    if isinstance(error, sdk.APIError):
        return address.scrub_error(parse_stream_error(error.body, error.message))
    text = address.scrub(f"{type(error).__name__}: {error}")
    return ProviderError(f"the answer of {address.url} cannot be read: {text}")


def parse_stream_error(error: object, otherwise: str) -> InferenceExecutionError:
    """Our error for an error object inside a stream.

    Args:
        otherwise: the text if the object has none.
    """
    fields = error if isinstance(error, dict) else {}
    code, kind = str(fields.get("code") or ""), str(fields.get("type") or "")
    return stream_error(code, kind, error_text(error) or otherwise)


def stream_error(code: str, kind: str, message: str) -> InferenceExecutionError:
    """Our error for one reported inside a stream, by its code, else its type, else its text."""
    if code.isdecimal() and 400 <= int(code) < 600:
        return classify_http(int(code), message)
    known = _BY_CODE.get(code) or _BY_CODE.get(kind)
    if known is not None:
        return known(message)
    by_words = classify_text(message)
    if type(by_words) is ProviderError and (code or kind).startswith(_OF_THE_REQUEST):
        return InvalidRequest(message)
    return by_words


def parse_whole_answer(body: object) -> dict[str, Any]:
    """The answer in a body that was not streamed.

    Raises:
        InferenceExecutionError: the body is an error, or no answer at all.
    """
    if isinstance(body, dict) and not body.get("error"):
        return body
    raise missing_answer_error(body if isinstance(body, str) else dumps_text(body))


def missing_answer_error(body: str) -> InferenceExecutionError:
    """Our error for a successful response without an answer: an error, or the page of a proxy."""
    try:
        error = loads(body)["error"]
    except (msgspec.DecodeError, UnicodeError, RecursionError, LookupError, TypeError):
        return ProviderError(f"the server has sent no answer: {body_error_text(body)}")
    return parse_stream_error(error, "the provider gave up on the answer")


def early_end_error() -> ProviderError:
    """The error for a stream that ended before its answer did."""
    return ProviderError("connection reset: the stream ended early, in the middle of the answer")


def _connection_error(error: Exception, address: Destination) -> ProviderError:
    cause = error.__cause__
    why = address.scrub(str(cause) or type(cause).__name__) if cause is not None else str(error)
    if type(cause).__name__ == "ConnectError":
        return ProviderError(
            f"connection error: nothing answers at {address.url} ({why}): {address.start}"
        )
    return ProviderError(f"connection error: connection reset by {address.url}: {why}")


def _status_error(error: Any, address: Destination, now_ms: int) -> InferenceExecutionError:
    body = address.scrub(error.response.text)
    refused = classify_http(error.status_code, body, error.response.headers, now_ms=now_ms)
    if error.status_code == 400:
        known = _BY_CODE.get(error.code or "")
        if known is not None:
            return known(refused.message, retry_after=refused.retry_after)
    if isinstance(refused, ModelMissing):
        return ModelMissing(f"{refused.message} (asked at {address.url})")
    return refused
