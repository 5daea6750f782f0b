"""Asking models at Amazon Bedrock: signed requests, and events in Amazon's binary frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import dumps, loads
from awaken.core.llm import (
    InferenceExecutionError,
    InferenceRequest,
    InferenceTimeout,
    InvalidRequest,
    LlmStreamEvent,
    ModelAbilities,
    ModelMissing,
    ProviderError,
    Unauthorized,
)
from awaken.core.secret import RedactedString, redact_address
from awaken.errors import ConfigError
from awaken.models.anthropic.clouds import REGIONS, first_env_value, region_of_profile
from awaken.models.anthropic.executor import common_options
from awaken.models.bedrock.request import converse_body
from awaken.models.bedrock.stream import ConverseReader
from awaken.models.http_errors import classify_http
from awaken.models.parsing import check_events
from awaken.models.response_limits import is_stream, limit_page
from awaken.models.sdk import PROVIDER_TIMEOUT, PerLoop, find_key, sdk
from awaken.models.wire import original_names

_ABILITIES = ModelAbilities(native_output=False, input=frozenset({"image", "document"}))

# The status of errors within a stream.
_STATUS = {
    "validationException": 400,
    "throttlingException": 429,
    "internalServerException": 500,
    "modelStreamErrorException": 500,
    "serviceUnavailableException": 503,
}
_SIGN_IN = (
    "export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or "
    "AWS_BEARER_TOKEN_BEDROCK"
)


class BedrockConverse:
    """Models at Amazon Bedrock, by the Converse API.

    Args:
        api_key: a Bedrock key, by default `AWS_BEARER_TOKEN_BEDROCK`. Without a key, requests are
            signed with the credentials that AWS's own library finds (variables, profiles, roles).
        region: by default `AWS_REGION`, `AWS_DEFAULT_REGION`, or the profile's.
        profile: the profile whose credentials are used.
        base_url: by default Amazon's address of the region.
        timeout: the most seconds to open a stream, and between two pieces of it.
        default_headers: sent with every request.

    Raises:
        ConfigError: an option cannot work, no region is known, or the extra is not installed.
    """

    name = "bedrock-converse"

    def __init__(
        self,
        *,
        api_key: str | RedactedString | None = None,
        region: str | None = None,
        profile: str | None = None,
        base_url: str | None = None,
        timeout: float = PROVIDER_TIMEOUT,
        default_headers: Mapping[str, str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._boto = sdk("boto3", extra="bedrock", provider=self.name)
        self._http = sdk("httpx2", extra="bedrock", provider=self.name)
        self._auth = sdk("botocore.auth", extra="bedrock", provider=self.name)
        self._frames = sdk("botocore.eventstream", extra="bedrock", provider=self.name)
        common_options(base_url, timeout, default_headers)
        self._key = find_key(api_key, ["AWS_BEARER_TOKEN_BEDROCK"], provider=self.name)
        if self._key is not None and profile:
            raise ConfigError("a Bedrock key and a profile are both given: keep one")
        self._region = region or first_env_value(REGIONS) or region_of_profile(self._boto, profile)
        self._url = base_url or f"https://bedrock-runtime.{self._region}.amazonaws.com"
        self._profile, self._timeout, self._clock = profile, timeout, clock
        # Headers may contain a key, too.
        headers = {"content-type": "application/json", **(default_headers or {})}
        self._headers = {name: RedactedString(value) for name, value in headers.items()}
        self._session: Any = None
        self._clients: PerLoop[Any] = PerLoop(self._connect, _close)

    def __repr__(self) -> str:
        return f"BedrockConverse({self._region!r})"

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return _ABILITIES

    def preview(self, request: InferenceRequest) -> dict[str, Any]:
        """The body of the request to Amazon."""
        return converse_body(request)

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        body = dumps(converse_body(request))
        url = f"{self._url.rstrip('/')}/model/{quote(request.upstream_model, safe='')}"
        url += "/converse-stream"
        reader = ConverseReader(original_names(request.tools))
        with self._translate_errors():
            # Finding credentials may read files, or ask another server.
            headers = await asyncio.to_thread(self._sign_request, url, body)
            stream = self._clients.get().stream("POST", url, content=body, headers=headers)
            try:
                async with stream as response:
                    if not is_stream(response):
                        raise self._status_error(response, await response.aread())
                    frames = self._frames.EventStreamBuffer()
                    async for chunk in response.aiter_bytes():
                        frames.add_data(chunk)
                        for kind, event in _events(frames):
                            for told in check_events(reader.read(kind, event)):
                                yield told
            except Exception as error:
                # Once the answer is complete, it does not matter how the connection ends.
                if not reader.done or isinstance(error, InferenceExecutionError):
                    raise
            last = check_events(reader.finish())
        for told in last:
            yield told

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._clients.aclose()

    # -- asking -------------------------------------------------------------------------------

    def _connect(self) -> Any:
        hooks = {"response": [limit_page]}
        return self._http.AsyncClient(timeout=self._timeout, event_hooks=hooks)

    def _sign_request(self, url: str, body: bytes) -> dict[str, str]:
        """The headers of a request, with the key or a signature.

        Raises:
            Unauthorized: AWS's library finds no credentials.
        """
        headers = {name: value.expose_secret() for name, value in self._headers.items()}
        if self._key is not None:
            return {"authorization": f"Bearer {self._key.expose_secret()}", **headers}
        if self._session is None:
            self._session = self._boto.Session(profile_name=self._profile)
        credentials = self._session.get_credentials()
        if credentials is None:
            raise Unauthorized(f"there are no AWS credentials: {_SIGN_IN}")
        asked = sdk("botocore.awsrequest", extra="bedrock", provider=self.name).AWSRequest(
            method="POST", url=url, data=body, headers=headers
        )
        frozen = credentials.get_frozen_credentials()
        self._auth.SigV4Auth(frozen, "bedrock", self._region).add_auth(asked)
        return dict(asked.headers)

    # -- failures -----------------------------------------------------------------------------

    def _status_error(self, response: Any, body: bytes) -> InferenceExecutionError:
        text = body.decode(errors="replace")
        if self._key is not None:
            text = self._key.redact(text)
        now = self._clock.now_ms()
        refused = classify_http(response.status_code, text, dict(response.headers), now_ms=now)
        if isinstance(refused, InvalidRequest) and "model identifier" in refused.message:
            return ModelMissing(refused.message)
        return refused

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except InferenceExecutionError:
            raise
        except Exception as error:
            raise self._translate_error(error) from error

    def _translate_error(self, error: Exception) -> InferenceExecutionError:
        words = str(error).strip() or type(error).__name__
        if isinstance(error, self._http.TimeoutException):
            return InferenceTimeout(f"no word from Bedrock for {self._timeout:g} s")
        if isinstance(error, self._http.ConnectError):
            return ProviderError(
                f"connection error: nothing answers at {redact_address(self._url)} ({words})"
            )
        if isinstance(error, self._http.HTTPError):
            return ProviderError(f"connection reset: {words}")
        if type(error).__module__ == "botocore.exceptions":
            return Unauthorized(f"{words}: {_SIGN_IN}")
        return ProviderError(f"an answer that makes no sense: {words}")


def open_bedrock_converse() -> BedrockConverse:
    """Amazon Bedrock, as the environment describes it."""
    return BedrockConverse()


def _events(frames: Any) -> Iterator[tuple[str, Any]]:
    """The kinds and contents of the events that have arrived whole.

    Raises:
        InferenceExecutionError: an event says that the answer failed.
    """
    for frame in frames:
        headers = frame.headers
        content: Any = loads(frame.payload) if frame.payload else {}
        if headers.get(":message-type") == "event":
            yield headers.get(":event-type", ""), content
            continue
        kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
        said = content.get("message") or headers.get(":error-message") or ""
        found = classify_http(_STATUS.get(kind, 500), said)
        raise type(found)(f"{kind} in mid-stream: {said}")


async def _close(client: Any) -> None:
    await client.aclose()
