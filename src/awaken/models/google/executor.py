"""Asking Gemini models with a key (Gemini API) or a Google Cloud project (Vertex AI)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json, to_json
from awaken.core.llm import (
    InferenceExecutionError,
    InferenceRequest,
    LlmStreamEvent,
    ModelAbilities,
)
from awaken.core.secret import RedactedString, redact_address
from awaken.errors import ConfigError
from awaken.ids import UUID7, Ids
from awaken.models.google.contents import wire_name
from awaken.models.google.errors import GeminiErrors
from awaken.models.google.model_names import abilities
from awaken.models.google.request import gemini_request
from awaken.models.google.stream import GeminiStream, data_lines
from awaken.models.provider_tools import (
    CodeExecution,
    FileSearch,
    NativeTool,
    NativeTools,
    WebSearch,
    native_tool_fields,
)
from awaken.models.response_limits import limit_response
from awaken.models.sdk import NO_KEY, PROVIDER_TIMEOUT, PerLoop, find_key, sdk, secret
from awaken.models.settings import add_extra_fields
from awaken.models.wire import original_names

if TYPE_CHECKING:
    import httpx2
    from google.auth.credentials import Credentials
    from google.genai import Client

KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

_NATIVE: NativeTools = {
    WebSearch: ((), lambda _: {"google_search": {}}),
    CodeExecution: ((), lambda _: {"code_execution": {}}),
    FileSearch: (
        ("stores",),
        lambda tool: {"file_search": {"file_search_store_names": list(tool.stores)}},
    ),
}

# The SDK closes an unfinished response only when its generators are garbage-collected. So the
# response is noted when it opens, and closed here.
_open_responses: ContextVar[list[httpx2.Response] | None] = ContextVar("opened", default=None)


class GoogleGemini:
    """Asks Gemini models.

    Google caches prompts by itself.

    Args:
        api_key: by default `GEMINI_API_KEY` or `GOOGLE_API_KEY`, but not for a server given as
            `base_url`. On Vertex AI, an API key replaces project and credentials.
        vertex: use Vertex AI.
        project: by default `GOOGLE_CLOUD_PROJECT`. For Vertex AI only.
        location: by default `GOOGLE_CLOUD_LOCATION`, or `global`. For Vertex AI only.
        credentials: by default those of the machine (application default credentials).
        api_version: such as `v1beta`; by default the SDK's own choice.
        timeout: the most seconds to open a stream, and between two pieces of it.
        headers: sent with every request.
        config: fields of `GenerateContentConfig` for every request, such as `safety_settings`.
        native: tools that Google runs itself, such as `WebSearch()`.
        client: your own client, with its own key, address and timeout; you close it.

    Raises:
        ConfigError: an option is missing or wrong, or `google-genai` is not installed.
    """

    def __init__(
        self,
        *,
        api_key: str | RedactedString | None = None,
        vertex: bool = False,
        project: str | None = None,
        location: str | None = None,
        credentials: Credentials | None = None,
        base_url: str | None = None,
        api_version: str | None = None,
        timeout: float = PROVIDER_TIMEOUT,
        headers: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        native: Sequence[NativeTool] = (),
        client: Client | None = None,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
    ) -> None:
        self._genai = sdk("google.genai", extra="google", provider=_provider_name(vertex))
        self._key, self._whose = _identity(
            api_key,
            vertex,
            project,
            location,
            credentials,
            # Keys in the environment are for Google's servers only.
            names=KEYS if base_url is None else (),
            brought=client is not None,
        )
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ConfigError(
                "Gemini: base_url begins with http:// or https://, not "
                f"{redact_address(base_url)!r}"
            )
        if not timeout > 0:
            raise ConfigError(f"Gemini: timeout is a number of seconds above 0, not {timeout!r}")
        self._vertex, self._base_url, self._timeout = vertex, base_url, timeout
        self._api_version = api_version
        # Headers may contain a key, too.
        self._headers = {name: RedactedString(value) for name, value in (headers or {}).items()}
        tools = native_tool_fields(native, _NATIVE, _provider_name(vertex))
        own = {"tools": tools} if tools else {}
        self._config = self._check_config(add_extra_fields(own, config or {}))
        self._ids = ids
        self._errors = GeminiErrors(self._key, clock)
        self._brought = client
        self._clients = PerLoop(self._connect, _disconnect)

    @property
    def name(self) -> str:
        return "google_vertex" if self._vertex else "google"

    def __repr__(self) -> str:
        shown = None if self._base_url is None else repr(redact_address(self._base_url))
        return f"GoogleGemini(vertex={self._vertex}, base_url={shown})"

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return abilities(upstream_model)

    def preview(self, request: InferenceRequest) -> Json:
        """The model, contents and config that the SDK sends."""
        return to_json(gemini_request(request, self._config))

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        asked = gemini_request(request, self._config)
        models = self._client().aio.models
        stream = GeminiStream(self._ids, original_names(request.tools, wire_name))
        opened: list[httpx2.Response] = []
        chunks: Any = None
        with self._errors.translate_errors(lambda: bool(opened) or stream.began):
            try:
                chunks = await models.generate_content_stream(**asked)
                token = _open_responses.set(opened)
                try:
                    chunk = await anext(chunks, None)
                finally:
                    _open_responses.reset(token)
                while chunk is not None:
                    for event in stream.read(chunk):
                        yield event
                    chunk = await anext(chunks, None)
            except Exception as error:
                # Once the answer is complete, it does not matter how the connection ends.
                if not stream.done or isinstance(error, InferenceExecutionError):
                    raise
            finally:
                for response in opened:
                    await response.aclose()
                if chunks is not None:
                    await chunks.aclose()
            for event in stream.finish():
                yield event

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._clients.aclose()

    def _client(self) -> Client:
        return self._brought if self._brought is not None else self._clients.get()[0]

    def _connect(self) -> tuple[Client, httpx2.AsyncClient]:
        httpx = sdk("httpx2", extra="google", provider=_provider_name(self._vertex))
        limit = httpx.Timeout(self._timeout).as_dict()

        async def set_timeout(request: httpx2.Request) -> None:
            # The SDK sends its own timeout to the server, as a limit for the whole answer.
            request.extensions = {**request.extensions, "timeout": limit}

        http = httpx.AsyncClient(
            event_hooks={"request": [set_timeout], "response": [limit_response, data_lines, _note]}
        )
        options = {
            "base_url": self._base_url,
            "api_version": self._api_version,
            "headers": {name: value.expose_secret() for name, value in self._headers.items()},
            "httpx_async_client": http,
            "retry_options": {"attempts": 1},
        }
        none = None if self._vertex else NO_KEY
        try:
            client: Client = self._genai.Client(
                api_key=none if self._key is None else self._key.expose_secret(),
                vertexai=self._vertex,
                http_options=options,
                **self._whose,
            )
        except ValueError as error:
            raise ConfigError(f"Gemini: {self._errors.scrub(str(error))}") from None
        return client, http

    def _check_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        if config:
            try:
                self._genai.types.GenerateContentConfig.model_validate(dict(config))
            except ValueError as error:
                raise ConfigError(f"Gemini: config is not understood: {error}") from error
        return dict(config)


def open_google(**options: Any) -> GoogleGemini:
    """Gemini by key; options as `GoogleGemini` takes them."""
    return GoogleGemini(**options)


def open_google_vertex(**options: Any) -> GoogleGemini:
    """Gemini in a Google Cloud project; options as `GoogleGemini` takes them."""
    return GoogleGemini(vertex=True, **options)


def _provider_name(vertex: bool) -> str:
    """The provider's name, as written before a model's name."""
    return "google-vertex" if vertex else "google"


def _identity(
    api_key: str | RedactedString | None,
    vertex: bool,
    project: str | None,
    location: str | None,
    credentials: Credentials | None,
    *,
    names: Sequence[str],
    brought: bool,
) -> tuple[RedactedString | None, dict[str, Any]]:
    """The key, if there is one, and the other credentials for the SDK's client."""
    if brought:
        return None, {}
    if not vertex:
        if project or location or credentials:
            raise ConfigError("Gemini: project, location and credentials are for vertex=True")
        find = secret if names else find_key
        return find(api_key, names, provider=_provider_name(vertex)), {}
    if api_key is not None:
        if credentials is not None or project or location:
            raise ConfigError("Vertex AI: give api_key, or project, location and credentials")
        key = secret(api_key, names[1:], provider=_provider_name(vertex))
        return key, {}
    project = project or os.environ.get("GOOGLE_CLOUD_PROJECT")
    if not project:
        raise ConfigError(
            "google-vertex needs a project: export GOOGLE_CLOUD_PROJECT, or give it as project"
        )
    location = location or os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    return None, {"project": project, "location": location, "credentials": credentials}


async def _note(response: httpx2.Response) -> None:
    opened = _open_responses.get()
    if opened is not None:
        opened.append(response)


async def _disconnect(connected: tuple[Client, httpx2.AsyncClient]) -> None:
    client, http = connected
    client.close()
    await http.aclose()
