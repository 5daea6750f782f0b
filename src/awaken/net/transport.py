"""An `httpx2` transport that goes only to addresses the policy allows.

Give it to an `httpx2.AsyncClient`. Each request is checked by itself, and so is each hop of a
redirect. A host is looked up once a connection, which goes to an address that was checked. Proxies
of the environment are not used. Answers are limited in size and time; compressed ones are refused,
so that the limit holds for what the client gets.

It needs `httpx2`, which some extras bring.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

from awaken.core.value import Value
from awaken.net.credentials import Credentials
from awaken.net.url_policy import (
    REDIRECTS,
    AddressPolicy,
    HttpUrl,
    Lookup,
    UrlRefused,
    connect_allowed,
    parse_redirect,
    parse_url,
)

try:
    import httpcore2
    import httpx2
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "awaken.net.transport needs httpx2, which the extra 'google' brings: "
        "pip install 'awaken[google]', or httpx2 alone",
        name=error.name,
    ) from error

_OWN_HEADERS = frozenset({"host", "accept-encoding"})
_NOT_CONNECTED = (httpcore2.ConnectError, httpcore2.ConnectTimeout)
_CORE_ERRORS = (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError)
_KEEP_ALIVE_SECONDS = 60.0
"""How long a connection without a request is kept; then its host is looked up again."""


class RequestRefused(httpx2.TransportError):
    """A request that is not sent, or a redirect that is not followed: the URL is not allowed.

    Its cause is the `UrlRefused`.
    """


class ResponseTooLarge(httpx2.TransportError):
    """An answer that exceeds the limit of the transport."""


class TransferLimits(Value, frozen=True, kw_only=True):
    """What an answer may take; times are in seconds. A client's own timeouts can only be shorter.

    Args:
        body: bytes of an answer's body.
        connect: for a connection: lookup, all addresses; and again for TLS.
        head: from the request until the head of its answer is there, without its body.
        silence: between two pieces of an answer.
        total: for the whole answer; `None` for streams that stay open.
    """

    body: int = 16 * 1024 * 1024
    connect: float = 10.0
    head: float = 60.0
    silence: float = 300.0
    total: float | None = None


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to addresses that `policy` allows.

    Errors are those of `httpx2`, and the two of this module. The transport sets the headers `Host`
    and `Accept-Encoding` itself; it takes no extension of a request but `timeout`.

    Args:
        credentials: headers that are added for the origins they are for, and removed for others.
            A header that the client adds is also sent to the origins of redirects.
        tls: by default, the certificates that the system trusts.
        lookup: finds the addresses of a host; by default, the system does.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        credentials: Sequence[Credentials] = (),
        limits: TransferLimits | None = None,
        tls: ssl.SSLContext | None = None,
        lookup: Lookup | None = None,
        max_connections: int = 10,
    ) -> None:
        self._policy = policy
        self._credentials = tuple(credentials)
        self._limits = limits if limits is not None else TransferLimits()
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls if tls is not None else httpcore2.default_ssl_context(),
            network_backend=_Httpx2Network(policy, lookup),
            max_connections=max_connections,
            keepalive_expiry=_KEEP_ALIVE_SECONDS,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """
        Raises:
            RequestRefused: the URL, an address of its host, or a redirect is not allowed.
            httpx2.TransportError: there is no answer.
        """
        loop = asyncio.get_running_loop()
        began, limits = loop.time(), self._limits
        total = limits.total
        with _map_refusal():
            url = parse_url(str(request.url))
            self._policy.check_url(url)
        with _map_errors(url):
            async with asyncio.timeout(limits.head if total is None else min(limits.head, total)):
                response = await self._pool.handle_async_request(self._to_core(request, url))
        body = _Body(response, url, limits.body, None if total is None else began + total)
        answer = httpx2.Response(
            response.status,
            headers=response.headers,
            stream=body,
            extensions={
                name: response.extensions[name] for name in ("http_version", "reason_phrase")
            },
        )
        try:
            _check_head(url, answer)
            if request.method != "HEAD":  # its answer declares the size of a body that is not sent
                body.check_size(_read_content_length(response))
        except BaseException:
            await body.aclose()
            raise
        return answer

    async def aclose(self) -> None:
        await self._pool.aclose()

    def _to_core(self, request: httpx2.Request, url: HttpUrl) -> httpcore2.Request:
        """The request with our own headers, and its timeouts within the limits."""
        added = {one.header: one for one in self._credentials if one.may_go_to(url)}
        left_out = _OWN_HEADERS | {one.header.lower() for one in self._credentials}
        headers: list[tuple[str | bytes, str | bytes]] = [
            ("Host", url.origin.partition("://")[2]),
            ("Accept-Encoding", "identity"),
            *((header, one.secret.expose_secret()) for header, one in added.items()),
        ]
        for name, value in request.headers.raw:
            if name.decode("latin-1").lower() not in left_out:
                headers.append((name, value))
        return httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
            headers=headers,
            content=request.stream,
            extensions={"timeout": self._timeouts(request.extensions.get("timeout", {}))},
        )

    def _timeouts(self, asked: dict[str, float | None]) -> dict[str, float]:
        limits = self._limits
        longest = {
            "connect": limits.connect,
            "read": limits.silence,
            "write": limits.silence,
            "pool": limits.head,
        }
        return {
            name: limit if (own := asked.get(name)) is None else min(own, limit)
            for name, limit in longest.items()
        }


class _Body(httpx2.AsyncByteStream):
    """The body of an answer while it is received."""

    def __init__(
        self, response: httpcore2.Response, url: HttpUrl, limit: int, ends_at: float | None
    ) -> None:
        self._response, self._url = response, url
        self._limit, self._ends_at = limit, ends_at

    def check_size(self, size: int) -> None:
        """
        Raises:
            ResponseTooLarge: so many bytes exceed the limit.
        """
        if size > self._limit:
            raise ResponseTooLarge(f"{self._url.origin} answers with more than {self._limit} bytes")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async with aclosing(self._response.aiter_stream()) as pieces:
            while (piece := await self._next(pieces)) is not None:
                received += len(piece)
                self.check_size(received)
                yield piece

    async def aclose(self) -> None:
        await self._response.aclose()

    async def _next(self, pieces: AsyncGenerator[bytes]) -> bytes | None:
        with _map_errors(self._url):
            async with asyncio.timeout_at(self._ends_at):
                return await anext(pieces, None)


class _Httpx2Network(httpcore2.AsyncNetworkBackend):
    """Connects only to addresses that were checked. TLS still verifies the host's name."""

    def __init__(self, policy: AddressPolicy, lookup: Lookup | None) -> None:
        self._policy, self._lookup = policy, lookup
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        def connect(address: str, seconds: float | None) -> Awaitable[httpcore2.AsyncNetworkStream]:
            return self._network.connect_tcp(address, port, seconds, local_address, socket_options)

        try:
            with _map_refusal():
                return await connect_allowed(
                    self._policy,
                    host,
                    port,
                    connect,
                    _NOT_CONNECTED,
                    timeout=timeout,
                    lookup=self._lookup,
                )
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout("its name is not found in time") from error
        except OSError as error:
            raise httpcore2.ConnectError(_text(error)) from error

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


def _read_content_length(response: httpcore2.Response) -> int:
    sizes = [value for name, value in response.headers if name.lower() == b"content-length"]
    return int(sizes[0]) if sizes and sizes[0].isdigit() else 0


def _check_head(url: HttpUrl, answer: httpx2.Response) -> None:
    """Refuse an answer that redirects from https to http, or is compressed."""
    if answer.status_code in REDIRECTS and "location" in answer.headers:
        with _map_refusal():
            parse_redirect(url, answer.headers["location"])
    if answer.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise httpx2.RemoteProtocolError(f"{url.origin} answers compressed, though asked not to")


@contextmanager
def _map_refusal() -> Iterator[None]:
    try:
        yield
    except UrlRefused as error:
        raise RequestRefused(error.message) from error


@contextmanager
def _map_errors(url: HttpUrl) -> Iterator[None]:
    """Translates the errors of `httpcore2` to those of `httpx2`, which have the same names."""
    try:
        yield
    except TimeoutError as error:
        raise httpx2.ReadTimeout(f"{url.origin} does not answer in time") from error
    except OSError as error:
        raise httpx2.ReadError(f"{url.origin}: {_text(error)}") from error
    except _CORE_ERRORS as error:
        kind: Any = next(
            getattr(httpx2, base.__name__)
            for base in type(error).__mro__
            if hasattr(httpx2, base.__name__)
        )
        raise kind(f"{url.origin}: {_text(error)}") from error


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
