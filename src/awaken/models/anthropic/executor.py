"""Asking Claude through the Messages API, with Anthropic's SDK."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import to_json
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.llm import (
    InferenceRequest,
    LlmStreamEvent,
    ModelAbilities,
    Stop,
)
from awaken.core.message import Message, Role
from awaken.core.secret import RedactedString, redact_address
from awaken.errors import ConfigError
from awaken.models.anthropic.errors import AnthropicErrors
from awaken.models.anthropic.model_names import Platform, abilities_of_model
from awaken.models.anthropic.request import PreparedRequest, prepare
from awaken.models.anthropic.stream import StreamReader
from awaken.models.provider_tools import (
    CodeExecution,
    NativeTool,
    NativeTools,
    WebSearch,
    native_tool_fields,
)
from awaken.models.response_limits import WatchedBody, limit_response
from awaken.models.sdk import NO_KEY, PROVIDER_TIMEOUT, PerLoop, find_key, sdk, secret
from awaken.models.settings import add_extra_fields

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
MAX_PAUSES = 16
"""How often an answer is continued that the provider has paused."""

_NATIVE: NativeTools = {
    WebSearch: (
        ("allowed_domains", "blocked_domains", "max_uses"),
        lambda tool: {
            "type": "web_search_20250305",
            "name": "web_search",
            **{
                name: to_json(value)
                for name, value in msgspec.structs.asdict(tool).items()
                if value
            },
        },
    ),
    CodeExecution: ((), lambda _: {"type": "code_execution_20250825", "name": "code_execution"}),
}


class _PausedAnswer(StreamAccumulator):
    """The beginning of an answer that the provider has paused, to send it back."""

    def __init__(self) -> None:
        super().__init__()
        self.max_bytes = sys.maxsize  # the listener limits the answer

    def continue_request(self, request: InferenceRequest) -> InferenceRequest:
        """The request that continues the answer: it ends with all of the answer so far."""
        begun = Message(role=Role.ASSISTANT, content=self.finish().content)
        return msgspec.structs.replace(request, messages=[*request.messages, begun])


class AnthropicMessages:
    """Models of Anthropic's own API.

    Args:
        api_key: by default `ANTHROPIC_API_KEY` or `ANTHROPIC_AUTH_TOKEN`. A server given as
            `base_url` gets only a key given here.
        base_url: by default `ANTHROPIC_BASE_URL`, or Anthropic's own.
        timeout: the most seconds to open a stream, and between two pieces of it.
        max_tokens: the longest answer, for requests without a limit.
        default_headers: sent with every request.
        extra_body: fields to send with every request; `tools` are added to the agent's.
        native: tools that Anthropic runs itself, such as `WebSearch()`.
        client: your own `AsyncAnthropic` (or Bedrock or Vertex) client to use instead; you close
            it.

    Raises:
        ConfigError: an option cannot work, there is no key, or the SDK is not installed.
    """

    platform: Platform = "anthropic"

    def __init__(
        self,
        *,
        api_key: str | RedactedString | None = None,
        base_url: str | None = None,
        timeout: float = PROVIDER_TIMEOUT,
        max_tokens: int | None = None,
        default_headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        native: Sequence[NativeTool] = (),
        client: Any = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._extra_body = add_native_tools(extra_body, native, self.platform)
        module = sdk("anthropic", extra="anthropic", provider="anthropic")
        if client is not None:
            self._use_client(module, client, max_tokens, clock)
            return
        key: RedactedString | None
        if base_url is None:
            key = secret(api_key, KEYS, provider="anthropic")
        else:
            key = find_key(api_key, provider="anthropic")
        options = common_options(base_url, timeout, default_headers)

        def make() -> Any:
            return module.AsyncAnthropic(
                api_key=NO_KEY if key is None else key.expose_secret(),
                http_client=http_client(module),
                **options,
            )

        secrets = [] if key is None else [key]
        self._set_up(module, make, secrets, max_tokens, default_headers, clock)

    @property
    def name(self) -> str:
        return self.platform

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return abilities_of_model(upstream_model, self.platform)

    def preview(self, request: InferenceRequest) -> dict[str, Any]:
        """The body of the request to Anthropic."""
        options = dict(self._prepare(request).options)
        options.pop("extra_headers", None)
        by_hand = options.pop("extra_body", {})
        return {**options, **by_hand}

    def _prepare(self, request: InferenceRequest) -> PreparedRequest:
        return prepare(
            request,
            platform=self.platform,
            max_tokens=self._max_tokens,
            betas=self._betas,
            extra_body=self._extra_body,
        )

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        prepared = self._prepare(request)
        heard = _PausedAnswer() if prepared.may_pause else None
        spent: TokenUsage | None = None
        for _ in range(MAX_PAUSES):
            reader = StreamReader(prepared.names, spent)
            with self._errors.translate_errors():
                stream = await self._clients.get().messages.create(**prepared.options)
                body = WatchedBody(stream.response)
                try:
                    async for event in stream:
                        for told in reader.read(event):
                            if heard is not None:
                                heard.push(told)
                            yield told
                finally:
                    await stream.close()
                if not reader.done:
                    raise self._errors.incomplete_stream_error(body.page)
            if not reader.paused:
                return
            if heard is None:
                break
            spent, prepared = reader.usage, self._prepare(heard.continue_request(request))
        yield Stop(reason=StopReason.END_TURN)

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._clients.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # -- setting up ---------------------------------------------------------------------------

    def _use_client(self, module: Any, client: Any, max_tokens: int | None, clock: Clock) -> None:
        kind = type(client).__name__
        if not hasattr(client, "messages") or not kind.startswith("Async"):
            raise ConfigError(
                "client is an AsyncAnthropic, AsyncAnthropicBedrock or AsyncAnthropicVertex, "
                f"not {kind}"
            )
        self.platform = next((p for p in _CLOUDS if p.title() in kind), self.platform)
        own = client.with_options(max_retries=0)
        keys = [getattr(client, name, None) for name in ("api_key", "auth_token")]
        secrets = [RedactedString(key) for key in keys if isinstance(key, str) and key]
        headers = {name: str(value) for name, value in client.default_headers.items()}
        self._set_up(module, lambda: own, secrets, max_tokens, headers, clock, close=_leave_open)

    def _set_up(
        self,
        module: Any,
        make: Callable[[], Any],
        secrets: Sequence[RedactedString],
        max_tokens: int | None,
        headers: Mapping[str, str] | None,
        clock: Clock,
        *,
        close: Callable[[Any], Awaitable[None]] | None = None,
    ) -> None:
        if max_tokens is not None and max_tokens <= 0:
            raise ConfigError(f"max_tokens is {max_tokens}: give a number above zero, or leave it")
        http = sdk("httpx2", extra="anthropic", provider=self.platform)
        self._max_tokens = max_tokens
        self._betas = _betas(headers or {})
        self._errors = AnthropicErrors(module, http, clock, secrets)
        self._clients: PerLoop[Any] = PerLoop(make, close or _close)


_CLOUDS: tuple[Platform, ...] = ("bedrock", "vertex")


def open_anthropic() -> AnthropicMessages:
    """Anthropic's own API, as the environment describes it."""
    return AnthropicMessages()


def add_native_tools(
    extra_body: Mapping[str, Any] | None, native: Sequence[NativeTool], provider: str
) -> dict[str, Any]:
    """The further fields of every request, with the provider's own tools.

    Raises:
        ConfigError: Anthropic has no such tool.
    """
    tools = native_tool_fields(native, _NATIVE, provider)
    return add_extra_fields({"tools": tools} if tools else {}, extra_body or {})


def common_options(
    base_url: str | None, timeout: float, default_headers: Mapping[str, str] | None
) -> dict[str, Any]:
    """The options of every SDK client; the SDK's own retries are off.

    Raises:
        ConfigError: an option cannot work.
    """
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise ConfigError(
            f"base_url {redact_address(base_url)!r} begins with neither http:// nor https://"
        )
    if not timeout > 0:
        raise ConfigError(f"timeout is {timeout}: give seconds above zero")
    return {
        "base_url": base_url,
        "timeout": timeout,
        "max_retries": 0,
        "default_headers": dict(default_headers) if default_headers else None,
    }


def http_client(module: Any, hook: Callable[[Any], Awaitable[None]] = limit_response) -> Any:
    """The SDK's own HTTP client, with a hook that limits the size of responses."""
    return module.DefaultAsyncHttpxClient(event_hooks={"response": [hook]})


def _betas(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Beta features that the user's headers switch on; every request must keep them."""
    given = next((v for name, v in headers.items() if name.lower() == "anthropic-beta"), "")
    return tuple(filter(None, (name.strip() for name in given.split(","))))


async def _close(client: Any) -> None:
    await client.close()


async def _leave_open(client: Any) -> None:
    pass
