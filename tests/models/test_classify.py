"""What a provider's failure means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.core.llm import (
    AllModelsUnavailable,
    ContentFiltered,
    ContextOverflow,
    InferenceCancelled,
    InferenceExecutionError,
    InferenceTimeout,
    InvalidRequest,
    ModelMissing,
    NoCredit,
    Overloaded,
    PoolAttemptsExhausted,
    ProviderError,
    RateLimited,
    StreamInterrupted,
    Unauthorized,
)
from awaken.models.http_errors import MAX_MESSAGE, classify_http, classify_text

NOW_MS = 1_445_412_480_000  # Wed, 21 Oct 2015 07:28:00 GMT


@pytest.mark.parametrize(
    ("error", "display", "retryable"),
    [
        (ProviderError("x"), "provider error: x", True),
        (RateLimited("x"), "rate limited: x", True),
        (Overloaded("x"), "provider overloaded: x", True),
        (InferenceTimeout("x"), "timeout: x", True),
        (StreamInterrupted("x"), "stream interrupted (x)", True),
        (ContextOverflow("x"), "context overflow: x", False),
        (InvalidRequest("x"), "invalid request: x", False),
        (Unauthorized("x"), "unauthorized: x", False),
        (NoCredit("x"), "no credit: x", False),
        (ModelMissing("x"), "model not found: x", False),
        (ContentFiltered("x"), "content filtered: x", False),
        (AllModelsUnavailable(), "all models unavailable", False),
        (PoolAttemptsExhausted(), "pool attempts exhausted", False),
        (InferenceCancelled(), "cancelled", False),
    ],
)
def test_errors_read_as_specified_and_fall_into_two_parts(
    error: InferenceExecutionError, display: str, retryable: bool
) -> None:
    """02/E6"""
    assert str(error) == display
    assert error.retryable is retryable


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (401, Unauthorized),
        (402, NoCredit),
        (403, Unauthorized),
        (404, ModelMissing),
        (408, InferenceTimeout),
        (413, ContextOverflow),
        (418, ProviderError),
        (422, InvalidRequest),
        (429, RateLimited),
        (500, ProviderError),
        (502, ProviderError),
        (503, Overloaded),
        (504, InferenceTimeout),
        (529, Overloaded),
    ],
)
def test_a_status_gives_the_class(status: int, kind: type[InferenceExecutionError]) -> None:
    """02/E6"""
    assert type(classify_http(status, "", {})) is kind


@pytest.mark.parametrize(
    "body",
    [
        '{"error":{"code":"context_length_exceeded"}}',
        "This model's maximum context length is 8192 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1048577) exceeds the maximum number of tokens allowed",
        "Too many tokens in the request",
        "Please reduce the length of the messages",
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
        '{"error":{"code":"1261","message":"Prompt exceeds max length"}}',
        "Invalid request: Your request exceeded model token limit: 131072",
    ],
)
def test_a_bad_request_about_length_is_an_overflow(body: str) -> None:
    assert type(classify_http(400, body, {})) is ContextOverflow
    assert type(classify_http(500, body, {})) is ProviderError


def test_a_used_up_quota_of_an_account_is_no_credit_and_one_of_a_minute_is_a_rate_limit() -> None:
    """Google refuses too many requests a minute with almost the words of OpenAI."""
    words = "You exceeded your current quota, please check your plan and billing details."
    of_openai = f'{{"error":{{"message":"{words}","type":"insufficient_quota","code":null}}}}'
    of_google = f'{{"error":{{"message":"{words}","status":"RESOURCE_EXHAUSTED"}}}}'
    assert type(classify_http(429, of_openai, {})) is NoCredit
    assert type(classify_http(429, of_google, {})) is RateLimited


def test_asking_for_too_much_output_is_an_invalid_request() -> None:
    body = "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens"
    assert type(classify_http(400, body, {})) is InvalidRequest


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error":{"type":"x","message":"be quiet"}}', "HTTP 429: be quiet"),
        ('{"error":"be quiet"}', "HTTP 429: be quiet"),
        ('{"message":"be quiet"}', "HTTP 429: be quiet"),
        ('{"detail":"be quiet"}', "HTTP 429: be quiet"),
        (b"be \xff quiet\n", "HTTP 429: be � quiet"),
        (
            '{"error":{"message":"Provider returned error","code":429,"metadata":{'
            '"raw":"{\\"error\\":{\\"message\\":\\"slow down\\"}}","provider_name":"Novita"}}}',
            "HTTP 429: Provider returned error: Novita: slow down",
        ),
        ('[{"error":{"code":429,"message":"be quiet"}}]', "HTTP 429: be quiet"),
        (
            "<html>\n<head><title>No</title></head>\n<body>\n<h1>502 Bad Gateway</h1>\n"
            "<hr><center>nginx</center></body></html>\n",
            "HTTP 429: 502 Bad Gateway nginx",
        ),
        ("<Error><Code>SlowDown</Code></Error>", "HTTP 429: SlowDown"),
        ("<", "HTTP 429: <"),
        ("[]", "HTTP 429: []"),
        ('{"odd":1}', 'HTTP 429: {"odd":1}'),
        ("", "HTTP 429"),
    ],
)
def test_the_sentence_for_people_is_found_in_the_body(body: str | bytes, message: str) -> None:
    assert classify_http(429, body, {}).message == message


def test_a_long_body_is_cut() -> None:
    assert len(classify_http(500, "x" * 10_000, {}).message) <= MAX_MESSAGE + len("HTTP 500: ")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": " 0 "}, 0.0),
        ({"RETRY-AFTER": "Wed, 21 Oct 2015 07:28:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 -0000"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 99999999999999999999 07:28:30 GMT"}, None),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "9" * 400}, None),
        ({}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert classify_http(429, "", headers, now_ms=NOW_MS).retry_after == seconds


def test_a_date_without_the_time_of_day_is_ignored() -> None:
    headers = {"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}
    assert classify_http(503, "", headers).retry_after is None


@given(value=st.text(max_size=40) | st.from_regex(r"\w{3}, \d+ \w{3} \d+ [\d:]+ [+-]?\w+"))
def test_no_header_makes_classification_fail(value: str) -> None:
    error = classify_http(429, "", {"retry-after": value}, now_ms=NOW_MS)
    assert error.retry_after is None or error.retry_after >= 0


@given(body=st.text() | st.binary(), status=st.integers(100, 599))
def test_no_body_makes_classification_fail(body: str | bytes, status: int) -> None:
    assert isinstance(classify_http(status, body, {}), InferenceExecutionError)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("blocked by content filter", ContentFiltered),
        ("content_policy_violation", ContentFiltered),
        ("stopped for SAFETY reasons", ContentFiltered),
        ("the safety system is overloaded", ContentFiltered),
        ("Overloaded, rate limit near", Overloaded),
        ("overloaded_error", Overloaded),
        ("rate_limit_exceeded", RateLimited),
        ("Rate limit: timeout in 3 s", RateLimited),
        ("got 429", RateLimited),
        ("Too Many Requests", RateLimited),
        ("request timed out", InferenceTimeout),
        ("Timeout while reading", InferenceTimeout),
        ("context deadline exceeded", InferenceTimeout),
        ("rate limit: too many tokens", RateLimited),
        ("prompt is too long: 9 tokens > 8 maximum", ContextOverflow),
        ("Insufficient Balance", NoCredit),
        ("could not generate", ProviderError),
        ("operation failed", ProviderError),
        ("the retry policy gave up", ProviderError),
        ("", ProviderError),
    ],
)
def test_words_give_the_class_where_there_is_no_status(
    message: str, kind: type[InferenceExecutionError]
) -> None:
    """02/E6"""
    error = classify_text(message)
    assert type(error) is kind
    assert error.message == message
