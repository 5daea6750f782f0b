"""Models behind the chat completions API of OpenAI, Azure and compatible servers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from awaken.clock import SYSTEM_CLOCK
from awaken.core.llm import InferenceRequest, ModelAbilities
from awaken.errors import ConfigError
from awaken.ids import UUID7, Ids
from awaken.models.openai.chat_request import chat_body
from awaken.models.openai.chat_stream import ChatReader
from awaken.models.openai.connection import (
    ConnectionOptions,
    ManagedClients,
    UserClient,
    clear_openai_settings,
    connect,
    parse_options,
    parse_timeout,
    parse_url,
)
from awaken.models.openai.errors import Destination
from awaken.models.openai.executor import OpenAIExecutor
from awaken.models.openai.providers import (
    CHAT_PROVIDERS,
    COMPATIBLE,
    OPENAI_MODELS,
    ChatDialect,
    ChatProvider,
    dialect_of,
    provider_at,
)
from awaken.models.response_limits import limit_response
from awaken.models.sdk import sdk, secret
from awaken.models.wire import original_names

if TYPE_CHECKING:
    from openai import AsyncOpenAI

AZURE_API_VERSION = "2024-10-21"
"""The last version that Azure calls stable for chat with deployments."""

_AZURE = ChatProvider(
    url="",
    keys=("AZURE_OPENAI_API_KEY",),
    dialect=ChatDialect(max_tokens_field="max_completion_tokens", think_tags=False),
    quirks=OPENAI_MODELS,
)


class OpenAIChat(OpenAIExecutor):
    """Models behind the chat completions API.

    Args:
        name: marks the origin of reasoning, which is sent back only to an executor of the same
            name.
        dialect: the server's dialect; by default that of the table in `providers` for OpenAI and
            the servers that it knows by their address, else one that most servers accept.
        extra_body: fields to send with every request, such as
            `{"chat_template_kwargs": {"enable_thinking": False}}`; `tools` are added to the
            agent's.
        stream: switch it off for models that may not stream; the answer then comes at once.
        ids: makes ids for calls if a server gives none.
        connection: see `ConnectionOptions`.

    Raises:
        ConfigError: the extra or the key is missing, or an option makes no sense.
    """

    path = "/chat/completions"

    def __init__(
        self,
        *,
        name: str = "openai-chat",
        dialect: ChatDialect | None = None,
        extra_body: Mapping[str, Any] | None = None,
        stream: bool = True,
        ids: Ids = UUID7,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        super().__init__(name, self._connect(name, connection), extra_body, stream)
        self._provider = self._own_provider(connection)
        if dialect is not None:
            self._provider = ChatProvider(url="", keys=(), dialect=parse_options(name, dialect))
        self._dialects: dict[str, ChatDialect] = {}
        self._ids = ids

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return ModelAbilities(native_output=self._dialect(upstream_model).native_output)

    def _connect(self, name: str, options: ConnectionOptions) -> ManagedClients | UserClient:
        return connect(name, options)

    def _own_provider(self, options: ConnectionOptions) -> ChatProvider:
        client, url = options.get("client"), options.get("base_url")
        if client is None and url is None:
            return CHAT_PROVIDERS["openai-chat"]
        known = provider_at(url if client is None else str(client.base_url))
        return known or ChatProvider(url="", keys=(), dialect=COMPATIBLE)

    def _dialect(self, model: str) -> ChatDialect:
        known = self._dialects.get(model)
        if known is None:
            known = self._dialects[model] = dialect_of(self._provider, model)
        return known

    def _body(self, request: InferenceRequest) -> dict[str, Any]:
        return chat_body(request, self._dialect(request.upstream_model), self._name)

    def _reader(self, request: InferenceRequest) -> ChatReader:
        tags = self._dialect(request.upstream_model).think_tags
        return ChatReader(self._name, original_names(request.tools), self._ids, think_tags=tags)


class AzureChat(OpenAIChat):
    """Models deployed on Azure; the model's name is the name of a deployment.

    The endpoint is `base_url` or `AZURE_OPENAI_ENDPOINT`; the key is `api_key` or
    `AZURE_OPENAI_API_KEY`. For another way to sign in, pass a `client`.

    Args:
        api_version: the version of the API; by default `OPENAI_API_VERSION`, else a version that
            works.

    Raises:
        ConfigError: the extra, the endpoint or the key is missing, or an option makes no sense.
    """

    def __init__(
        self,
        *,
        name: str = "azure",
        api_version: str | None = None,
        dialect: ChatDialect | None = None,
        extra_body: Mapping[str, Any] | None = None,
        stream: bool = True,
        ids: Ids = UUID7,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        self._version = api_version or os.environ.get("OPENAI_API_VERSION") or AZURE_API_VERSION
        super().__init__(
            name=name,
            dialect=dialect,
            extra_body=extra_body,
            stream=stream,
            ids=ids,
            **connection,
        )

    def _own_provider(self, options: ConnectionOptions) -> ChatProvider:
        return _AZURE

    def _connect(self, name: str, options: ConnectionOptions) -> ManagedClients | UserClient:
        if options.get("client") is not None:
            return connect(name, options)
        module = sdk("openai", extra="openai", provider=name)
        url = options.get("base_url") or os.environ.get("AZURE_OPENAI_ENDPOINT")
        if not url:
            raise ConfigError(
                f"{name} needs an endpoint: export AZURE_OPENAI_ENDPOINT, such as "
                "https://my-resource.openai.azure.com, or give it as base_url"
            )
        key = secret(options.get("api_key"), ["AZURE_OPENAI_API_KEY"], provider=name)
        endpoint = parse_url(name, url)
        address = Destination(
            url=endpoint,
            timeout=parse_timeout(name, options),
            start=options.get("start", "check AZURE_OPENAI_ENDPOINT and the network"),
            key=key,
        )

        def make() -> AsyncOpenAI:
            made: AsyncOpenAI = module.AsyncAzureOpenAI(
                azure_endpoint=endpoint,
                api_key=key.expose_secret(),
                api_version=self._version,
                timeout=address.timeout,
                max_retries=0,
                organization=options.get("organization"),
                project=options.get("project"),
                default_headers=options.get("default_headers"),
                http_client=module.DefaultAsyncHttpxClient(
                    event_hooks={"response": [limit_response]}
                ),
            )
            return clear_openai_settings(made, options)

        return ManagedClients(module, make, address, options.get("clock", SYSTEM_CLOCK))
