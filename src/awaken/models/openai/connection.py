"""Connecting to a server: its address, the key, and the SDK's clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar
from urllib.parse import urlsplit

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import from_json, to_json
from awaken.core.secret import RedactedString, redact_address
from awaken.core.value import Value
from awaken.errors import ConfigError
from awaken.models.openai.errors import Destination
from awaken.models.response_limits import limit_response
from awaken.models.sdk import NO_KEY, PROVIDER_TIMEOUT, PerLoop, find_key, sdk, secret

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T", bound=Value)

OPENAI_URL = "https://api.openai.com/v1"


class ConnectionOptions(TypedDict, total=False):
    """How to reach a server.

    The key in `OPENAI_API_KEY` is used for OpenAI, or for the server at `OPENAI_BASE_URL`. A server
    given as `base_url` gets only an `api_key` given with it. The same holds for `OPENAI_ORG_ID` and
    `OPENAI_PROJECT_ID`.

    Args:
        timeout: the most seconds to open a stream, and between two pieces of it.
        client: your own SDK client; then only `start` and `clock` may be given besides.
        start: what the error advises if the server cannot be reached.
    """

    api_key: str | RedactedString | None
    base_url: str | None
    timeout: float
    organization: str | None
    project: str | None
    default_headers: Mapping[str, str] | None
    client: AsyncOpenAI | None
    start: str
    clock: Clock


class ManagedClients:
    """Clients for one server, one for each event loop, made on first use."""

    def __init__(
        self, module: Any, make: Callable[[], AsyncOpenAI], address: Destination, clock: Clock
    ) -> None:
        self.sdk, self.address, self.clock = module, address, clock
        self._clients = PerLoop(make, _close)
        self.client = self._clients.get
        self.aclose = self._clients.aclose


class UserClient:
    """The user's own client, which the user closes."""

    def __init__(
        self, module: Any, client: AsyncOpenAI, address: Destination, clock: Clock
    ) -> None:
        self.sdk, self.address, self.clock = module, address, clock
        self._client = client.with_options(max_retries=0)

    def client(self) -> AsyncOpenAI:
        return self._client

    async def aclose(self) -> None:
        """Does nothing: the user closes the client."""


def connect(provider: str, options: ConnectionOptions) -> ManagedClients | UserClient:
    """A connection to OpenAI or a compatible server; it is not opened yet.

    Raises:
        ConfigError: the extra or the key is missing, or an option makes no sense.
    """
    module = sdk("openai", extra="openai", provider=provider)
    clock = options.get("clock", SYSTEM_CLOCK)
    client = options.get("client")
    if client is not None:
        return _use_client(module, client, provider, options, clock)
    timeout = parse_timeout(provider, options)
    given = options.get("base_url")
    url = parse_url(provider, given or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
    if given is None:
        key: RedactedString | None = secret(
            options.get("api_key"), ["OPENAI_API_KEY"], provider=provider
        )
    else:
        key = find_key(options.get("api_key"), provider=provider)
    address = Destination(
        url=url,
        timeout=timeout,
        start=options.get("start", "check the address and the network"),
        key=key,
    )

    def make() -> AsyncOpenAI:
        made: AsyncOpenAI = module.AsyncOpenAI(
            api_key=key.expose_secret() if key is not None else NO_KEY,
            base_url=url,
            timeout=timeout,
            max_retries=0,
            organization=options.get("organization"),
            project=options.get("project"),
            default_headers=options.get("default_headers"),
            http_client=module.DefaultAsyncHttpxClient(event_hooks={"response": [limit_response]}),
        )
        return made if given is None else clear_openai_settings(made, options)

    return ManagedClients(module, make, address, clock)


def clear_openai_settings(client: AsyncOpenAI, options: ConnectionOptions) -> AsyncOpenAI:
    """Clear the client's settings for OpenAI from the environment: its server is another one."""
    client.organization, client.project = options.get("organization"), options.get("project")
    return client


def parse_options(provider: str, options: T) -> T:
    """Check the values of the options. Returns the options.

    Raises:
        ConfigError: a value is not allowed; the text says which.
    """
    try:
        from_json(to_json(options), type(options))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{provider}: {error}") from error
    return options


def parse_timeout(provider: str, options: ConnectionOptions) -> float:
    timeout = options.get("timeout", PROVIDER_TIMEOUT)
    if timeout <= 0:
        raise ConfigError(f"{provider}: timeout is {timeout!r}, it must be more than 0 seconds")
    return timeout


def parse_url(provider: str, url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(
            f"{provider}: {redact_address(url)!r} is no address: it begins with http:// or https://"
        )
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise ConfigError(f"{provider}: {redact_address(url)!r} is no address: {error}") from None
    return url


def _use_client(
    module: Any, client: AsyncOpenAI, provider: str, options: ConnectionOptions, clock: Clock
) -> UserClient:
    for name, value in options.items():
        if value is not None and name not in ("client", "start", "clock"):
            raise ConfigError(f"{provider}: give {name} to the client, not beside it")
    timeout = client.timeout
    address = Destination(
        url=str(client.base_url).rstrip("/"),
        timeout=timeout if isinstance(timeout, int | float) else PROVIDER_TIMEOUT,
        start=options.get("start", "check the address and the network"),
        key=RedactedString(client.api_key) if client.api_key.strip() else None,
    )
    return UserClient(module, client, address, clock)


async def _close(client: AsyncOpenAI) -> None:
    await client.close()
