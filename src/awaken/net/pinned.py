"""HTTP for remote agents, with checked addresses, limited answers and timeouts.

Every hop, including redirects, is checked by the address policy. Credentials are sent only to the
origins they are for. Proxies of the environment are not used, because the final address of a
request could then not be checked.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import httpcore

from awaken.core.backend import RemoteError
from awaken.core.value import Value
from awaken.net.credentials import Credentials
from awaken.net.url_policy import (
    REDIRECTS,
    AddressPolicy,
    HttpUrl,
    connect_allowed,
    parse_redirect,
)

CONNECT_TIMEOUT = 10.0
MAX_REDIRECTS = 3
_KEEPS_METHOD = frozenset({307, 308})


class Unanswered(RemoteError):
    """A request that got no answer; `arrived` is false if it certainly did not reach the agent."""

    def __init__(self, message: str, *, arrived: bool) -> None:
        super().__init__(message)
        self.arrived = arrived


class TooLarge(RemoteError):
    """An answer that is too large."""


class SizeLimit(Value, frozen=True, kw_only=True):
    """The maximum size of an answer, and the option or rule that sets it."""

    size: int
    why: str


class HttpRequest(Value, frozen=True, kw_only=True):
    """A request. `read_timeout` limits the wait for each piece of the answer."""

    method: str
    url: HttpUrl
    accept: str = "application/json"
    body: bytes | None = None
    read_timeout: float


class HttpStream:
    """An answer that is being received."""

    def __init__(
        self, response: httpcore.Response, url: HttpUrl, limit: SizeLimit, credentials_sent: bool
    ) -> None:
        self.status = response.status
        self.url = url
        self.credentials_sent = credentials_sent
        self._headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.headers
        }
        self._response = response
        self._limit = limit

    def header(self, name: str) -> str:
        return self._headers.get(name, "")

    @property
    def media_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """
        Raises:
            TooLarge: the answer exceeds its limit.
            Unanswered: the connection broke, or fell silent.
        """
        declared = self.header("content-length")
        if declared.isdigit() and int(declared) > self._limit.size:
            raise self._too_large()
        total = 0
        pieces = cast("AsyncGenerator[bytes, None]", self._response.aiter_stream())
        with _MappedErrors(self.url):
            async with aclosing(pieces):
                async for chunk in pieces:
                    total += len(chunk)
                    if total > self._limit.size:
                        raise self._too_large()
                    yield chunk

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    def _too_large(self) -> TooLarge:
        return TooLarge(
            f"{self.url.origin} answers with more than {self._limit.size} bytes, "
            f"which is {self._limit.why}"
        )


class Http:
    """The connections of one activation, as a context manager. If they were kept longer, they would
    bind the backend to one event loop."""

    def __init__(
        self,
        policy: AddressPolicy,
        credentials: Credentials | None,
        *,
        limit: SizeLimit,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._credentials = credentials
        self._limit = limit
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls, network_backend=CheckedNetwork(policy), max_connections=4
        )

    async def __aenter__(self) -> Http:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._pool.aclose()

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        """The answer to a request, after at most three redirects.

        Raises:
            UrlRefused: a hop leads to an address that is not allowed.
            Unanswered: there is no answer.
        """
        url = request.url
        for _ in range(MAX_REDIRECTS + 1):
            response, credentials_sent = await self._ask(request, url)
            try:
                next_url = _redirect(request, response, url)
                if next_url is None:
                    yield HttpStream(response, url, self._limit, credentials_sent)
                    return
            finally:
                await response.aclose()
            url = next_url
        raise RemoteError(f"{request.url.origin} redirects more than {MAX_REDIRECTS} times")

    async def _ask(self, request: HttpRequest, url: HttpUrl) -> tuple[httpcore.Response, bool]:
        self._policy.check_url(url)
        headers = _headers(request, url)
        credentials = self._credentials
        may_go = credentials is not None and credentials.may_go_to(url)
        if credentials is not None and may_go:
            headers.append((credentials.header, credentials.secret.expose_secret()))
        asked = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
            headers=headers,
            content=request.body,
            extensions={"timeout": _timeouts(request.read_timeout)},
        )
        with _MappedErrors(url):
            response = await self._pool.handle_async_request(asked)
        return response, may_go or credentials is None


def _headers(request: HttpRequest, url: HttpUrl) -> list[tuple[str, str]]:
    headers = [
        ("Host", url.origin.partition("://")[2]),
        ("Accept", request.accept),
        ("Accept-Encoding", "identity"),
        ("A2A-Version", "1.0"),
        ("User-Agent", "awaken"),
    ]
    if request.body is not None:
        headers.append(("Content-Type", "application/json"))
        headers.append(("Content-Length", str(len(request.body))))
    elif request.method == "POST":
        headers.append(("Content-Length", "0"))
    return headers


def _timeouts(read: float) -> dict[str, float]:
    connect = min(CONNECT_TIMEOUT, read)
    return {"connect": connect, "read": read, "write": read, "pool": connect}


def _redirect(request: HttpRequest, response: httpcore.Response, url: HttpUrl) -> HttpUrl | None:
    """The target of a redirect, or `None` if the answer is not a redirect."""
    if response.status not in REDIRECTS:
        return None
    locations = [value for name, value in response.headers if name.lower() == b"location"]
    if not locations:
        raise RemoteError(f"{url.origin} answered {response.status} without saying where to go")
    if request.method != "GET" and response.status not in _KEEPS_METHOD:
        # Clients usually follow it with a GET without the body, which would be another request.
        raise RemoteError(
            f"{url.origin} answered a {request.method} with redirect {response.status}: "
            "set the endpoint's base_url to where the agent is"
        )
    return parse_redirect(url, locations[0].decode("latin-1"))


class _MappedErrors:
    """Translates httpcore's errors to ours."""

    def __init__(self, url: HttpUrl) -> None:
        self._origin = url.origin

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, httpcore.ConnectError | httpcore.ConnectTimeout):
            raise Unanswered(
                f"cannot connect to {self._origin}: {_text(error)}", arrived=False
            ) from error
        if isinstance(error, httpcore.PoolTimeout | httpcore.LocalProtocolError):
            raise Unanswered(f"cannot ask {self._origin}: {_text(error)}", arrived=False) from error
        if isinstance(error, httpcore.TimeoutException):
            raise Unanswered(f"{self._origin} does not answer in time", arrived=True) from error
        if isinstance(error, httpcore.NetworkError | httpcore.ProtocolError | OSError):
            raise Unanswered(
                f"lost the connection to {self._origin}: {_text(error)}", arrived=True
            ) from error


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__


_NOT_CONNECTED = (httpcore.ConnectError, httpcore.ConnectTimeout)


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that were checked.

    TLS still verifies the host's name: only the address is fixed.
    """

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        def connect(address: str, seconds: float | None) -> Awaitable[httpcore.AsyncNetworkStream]:
            return self._network.connect_tcp(address, port, seconds, local_address, socket_options)

        try:
            return await connect_allowed(
                self._policy, host, port, connect, _NOT_CONNECTED, timeout=timeout
            )
        except OSError as error:
            raise httpcore.ConnectError(_text(error)) from error

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)
