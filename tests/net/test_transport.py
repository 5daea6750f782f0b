"""The guarded `httpx2` transport, with real servers on loopback addresses.

A policy that lists `127.0.0.1` stands for one to which that address is public: it still refuses the
other loopback addresses.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from awaken.core.secret import RedactedString
from awaken.net.credentials import Credentials
from awaken.net.transport import (
    GuardedTransport,
    RequestRefused,
    ResponseTooLarge,
    TransferLimits,
)
from awaken.net.url_policy import AddressPolicy, Lookup, UrlRefused
from tls_kit import make_certificate

pytestmark = pytest.mark.anyio

PUBLIC, PRIVATE = "127.0.0.1", "127.0.0.2"
POLICY = AddressPolicy(allow_hosts=(PUBLIC,))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A server on an address of this machine: what it heard, and its open connections."""

    def __init__(self, handler: Handler, address: str = PUBLIC, tls: Path | None = None) -> None:
        self._handler, self._address, self._tls = handler, address, tls
        self.heads: list[bytes] = []
        self.connections = 0
        self.closed = asyncio.Event()
        """Set when a client has closed its connection."""

    async def __aenter__(self) -> Server:
        tls = None
        if self._tls is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(self._tls, self._tls.with_suffix(".key"))
        self._server = await asyncio.start_server(self._serve, self._address, 0, ssl=tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()

    def url(self, path: str = "/", host: str | None = None, scheme: str = "http") -> str:
        return f"{scheme}://{host or self._address}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                await self._handler(reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.set()
        finally:
            writer.close()


def answering(*answers: bytes) -> Handler:
    """Gives the answers one after the other, the last one again and again."""
    left = list(answers)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    return handle


def redirecting(location: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Waits until the client goes."""
    await reader.read()
    raise asyncio.IncompleteReadError(b"", None)


def looking_up(*answers: Sequence[str]) -> tuple[Lookup, list[str]]:
    """A resolver with one answer after the other, and the hosts it was asked for."""
    left, asked = list(answers), list[str]()

    async def lookup(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return left.pop(0) if len(left) > 1 else left[0]

    return lookup, asked


@asynccontextmanager
async def client(
    policy: AddressPolicy = POLICY,
    *,
    credentials: Sequence[Credentials] = (),
    limits: TransferLimits | None = None,
    lookup: Lookup | None = None,
    tls: ssl.SSLContext | None = None,
    follow_redirects: bool = True,
) -> AsyncIterator[httpx2.AsyncClient]:
    transport = GuardedTransport(
        policy, credentials=credentials, limits=limits, lookup=lookup, tls=tls
    )
    async with httpx2.AsyncClient(
        transport=transport, follow_redirects=follow_redirects, timeout=None
    ) as http:
        yield http


# -- where a request may go ---------------------------------------------------------------------


async def test_an_allowed_address_is_asked() -> None:
    async with Server(answering(OK)) as server, client() as http:
        answer = await http.post(server.url("/a%20b?c=d"), content=b"hello", headers={"X-A": "b"})

    assert (answer.status_code, answer.text) == (200, "ok")
    assert server.heads[0].startswith(b"POST /a%20b?c=d HTTP/1.1\r\n")
    assert f"Host: {PUBLIC}:{server.port}\r\n".encode() in server.heads[0]
    assert b"X-A: b\r\n" in server.heads[0]
    assert b"Content-Length: 5\r\n" in server.heads[0]


@pytest.mark.parametrize(
    "host",
    [
        PRIVATE,
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "127.0.0.2.",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.2]",
        "[::ffff:7f00:2]",
        "[::127.0.0.2]",
        "[64:ff9b::7f00:2]",
        "[2002:7f00:2::]",
        "[fe80::1%25lo]",
        "[::1%25lo]",
        "127.2",
        "127.0.2",
        "2130706434",
        "0x7f000002",
        "0x7f.0.0.2",
        "0177.0.0.02",
        "017700000002",
        "⑫7.0.0.2",
        "127。0。0。2",
        "10.0.0.1",
        "169.254.169.254",
        "metadata@127.0.0.2",
        "127.0.0.1:80@127.0.0.2",
        "user:secret@127.0.0.1",
        "127.0.0.1%2f@127.0.0.2",
        "127.0.0.1\\@127.0.0.2",
        "127.0.0.1#@127.0.0.2",
        "127.0.0.1\t.evil",
        "127.0.0.2%00.example",
        "",
    ],
)
async def test_no_spelling_of_another_address_gets_through(host: str) -> None:
    """The servers hear nothing, but for the one that is allowed, where it is the host."""
    async with (
        Server(answering(OK)) as allowed,
        Server(answering(OK), PRIVATE) as private,
        client() as http,
    ):
        for port in (private.port, allowed.port):
            try:
                answer = await http.get(f"http://{host}:{port}/")
            except (RequestRefused, httpx2.ConnectError, httpx2.InvalidURL):
                continue
            except (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError):
                continue
            # Before `#` is the host; what follows is never sent.
            assert answer.request.url.host == PUBLIC
            assert "#" in host

    assert private.connections == 0


async def test_a_refusal_has_its_reason_and_no_password() -> None:
    async with client() as http:
        with pytest.raises(RequestRefused, match=r"'127.0.0.2' has a loopback address") as raised:
            await http.get("http://127.0.0.2:1/")
        assert isinstance(raised.value.__cause__, UrlRefused)
        assert raised.value.request.url.host == "127.0.0.2"
        with pytest.raises(RequestRefused, match="carries a user name") as raised:
            await http.get("http://me:hunter2@127.0.0.1:1/")
        assert "hunter2" not in str(raised.value)
        with pytest.raises(RequestRefused, match="not an http or https URL"):
            await http.get("ftp://127.0.0.1/")


async def test_a_name_is_refused_if_one_of_its_addresses_is() -> None:
    lookup, asked = looking_up([PUBLIC, "10.0.0.1"])
    async with Server(answering(OK)) as server, client(lookup=lookup) as http:
        with pytest.raises(RequestRefused, match=r"'two.example' \(10.0.0.1\) has a private addr"):
            await http.get(server.url(host="two.example"))

    assert asked == ["two.example"]
    assert server.connections == 0


async def test_a_resolver_that_changes_its_mind_leads_nowhere() -> None:
    """DNS rebinding: one lookup a connection, whose answer is checked and used."""
    lookup, asked = looking_up([PUBLIC], [PRIVATE])
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with Server(answering(closing)) as server, client(lookup=lookup) as http:
        assert (await http.get(server.url(host="rebind.example"))).text == "ok"
        with pytest.raises(RequestRefused, match=r"'rebind.example' \(127.0.0.2\)"):
            await http.get(server.url(host="rebind.example"))

    assert asked == ["rebind.example"] * 2
    assert server.connections == 1
    assert f"Host: rebind.example:{server.port}\r\n".encode() in server.heads[0]


async def test_the_next_address_is_tried() -> None:
    lookup, _ = looking_up(["127.0.0.3", PUBLIC])
    policy = AddressPolicy(allow_private=True)
    async with Server(answering(OK)) as server, client(policy, lookup=lookup) as http:
        assert (await http.get(server.url(host="two.example"))).text == "ok"


async def test_a_name_without_an_address_and_one_that_is_not_found_in_time() -> None:
    async def missing(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def hanging(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        raise AssertionError

    async with client(lookup=missing) as http:
        with pytest.raises(httpx2.ConnectError, match="Name or service not known"):
            await http.get("http://nowhere.example/")
    async with client(lookup=looking_up([])[0]) as http:
        with pytest.raises(httpx2.ConnectError, match="has no address"):
            await http.get("http://nowhere.example/")
    async with client(lookup=hanging, limits=TransferLimits(connect=0.05)) as http:
        with pytest.raises(httpx2.ConnectTimeout, match="not found in time"):
            await http.get("http://nowhere.example/")


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server(answering(OK)) as server, Server(answering(OK)) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        async with client() as http:
            assert (await http.get(server.url())).text == "ok"

    assert proxy.connections == 0


async def test_extensions_and_headers_of_a_request_lead_nowhere_else() -> None:
    async with Server(answering(OK)) as server, client() as http:
        await http.get(
            server.url("/path"),
            headers={"Host": "inside.example", "Accept-Encoding": "gzip"},
            extensions={"target": b"http://inside.example/", "sni_hostname": "inside.example"},
        )

    assert server.heads[0].startswith(b"GET /path HTTP/1.1\r\n")
    assert b"inside.example" not in server.heads[0]
    assert b"Accept-Encoding: identity\r\n" in server.heads[0]


# -- redirects ----------------------------------------------------------------------------------


async def test_each_hop_of_a_redirect_is_checked() -> None:
    async with (
        Server(answering(OK), PRIVATE) as private,
        Server(answering(redirecting("/next"), redirecting(private.url("/admin")))) as server,
        client() as http,
    ):
        with pytest.raises(RequestRefused, match=r"'127.0.0.2' has a loopback address"):
            await http.get(server.url())

    assert [head.split()[1] for head in server.heads] == [b"/", b"/next"]
    assert private.connections == 0


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "http://a b/", "//me:secret@127.0.0.1/", "gopher://x/"]
)
async def test_a_redirect_to_what_is_no_url_is_refused(location: str) -> None:
    async with (
        Server(answering(redirecting(location))) as server,
        client(follow_redirects=False) as http,
    ):
        with pytest.raises(RequestRefused) as raised:
            await http.get(server.url())

    assert "secret" not in str(raised.value)


async def test_redirects_that_do_not_end_are_given_up() -> None:
    async with Server(answering(redirecting("/again"))) as server, client() as http:
        with pytest.raises(httpx2.TooManyRedirects):
            await http.get(server.url())


# -- credentials --------------------------------------------------------------------------------


async def test_credentials_stay_with_their_origin() -> None:
    async with (
        Server(answering(OK)) as other,
        Server(answering(redirecting(other.url(), 307))) as server,
    ):
        key = Credentials(
            header="X-Api-Key",
            secret=RedactedString("hunter2-hunter2"),
            audience=server.url("").rstrip("/"),
        )
        async with client(credentials=[key]) as http:
            # The client's own header of that name follows a redirect; the transport removes it.
            answer = await http.get(server.url(), headers={"x-api-key": "of-the-client"})

    assert answer.text == "ok"
    assert b"X-Api-Key: hunter2-hunter2\r\n" in server.heads[0]
    assert b"of-the-client" not in server.heads[0] + other.heads[0]
    assert b"api-key" not in other.heads[0].lower()


async def test_credentials_are_in_no_error() -> None:
    key = Credentials(
        header="Authorization", secret=RedactedString("Bearer hunter2"), audience="http://a.example"
    )
    transport = GuardedTransport(POLICY, credentials=[key])
    async with httpx2.AsyncClient(transport=transport) as http:
        with pytest.raises(httpx2.TransportError) as raised:
            await http.get("http://127.0.0.1:1/")

    assert "hunter2" not in f"{raised.value!r} {transport!r} {raised.value.__cause__!r}"


# -- limits -------------------------------------------------------------------------------------


async def test_pieces_are_passed_on_as_they_come() -> None:
    received = asyncio.Event()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await writer.drain()
        await received.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

    pieces = []
    async with (
        Server(stream) as server,
        client() as http,
        http.stream("GET", server.url()) as answer,
    ):
        async for piece in answer.aiter_bytes():
            pieces.append(piece)
            received.set()

    assert pieces == [b"one", b"two"]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" + b"x" * 11,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"6\r\nxxxxxx\r\n" * 2,
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 11,
    ],
)
async def test_a_body_over_the_limit_is_refused_and_its_connection_closed(answer: bytes) -> None:
    async with Server(answering(answer)) as server, client(limits=TransferLimits(body=10)) as http:
        with pytest.raises(ResponseTooLarge, match="more than 10 bytes"):
            await http.get(server.url())
        await asyncio.wait_for(server.closed.wait(), 10)


async def test_a_body_of_just_the_limit_is_not() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + b"x" * 10
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"
    limits = TransferLimits(body=10)
    async with Server(answering(answer, head)) as server, client(limits=limits) as http:
        assert len((await http.get(server.url())).content) == 10
        assert (await http.head(server.url())).headers["Content-Length"] == "99999"


async def test_a_compressed_answer_is_refused() -> None:
    """A small one could be large for the client."""
    body = gzip.compress(b"x" * 1_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    async with Server(answering(head.encode() + body)) as server, client() as http:
        with pytest.raises(httpx2.RemoteProtocolError, match="compressed, though asked not to"):
            await http.get(server.url())
        await asyncio.wait_for(server.closed.wait(), 10)


async def test_a_head_without_end_is_refused() -> None:
    head = b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 500_000
    async with Server(answering(head)) as server, client() as http:
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.get(server.url())


async def dripping_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not writer.is_closing():
        writer.write(b"X: y\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)
    raise ConnectionError


async def dripping_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)
    raise ConnectionError


@pytest.mark.parametrize(
    ("handler", "limits"),
    [
        (silent, TransferLimits(head=0.1)),
        (silent, TransferLimits(silence=0.1)),
        (silent, TransferLimits(total=0.1)),
        (dripping_head, TransferLimits(head=0.1)),
        (dripping_body, TransferLimits(total=0.1)),
    ],
    ids=["head", "silence", "total", "dripping head", "dripping body"],
)
async def test_a_server_that_hangs_is_given_up(handler: Handler, limits: TransferLimits) -> None:
    async with Server(handler) as server, client(limits=limits) as http:
        with pytest.raises(httpx2.ReadTimeout):
            await http.get(server.url())
        await asyncio.wait_for(server.closed.wait(), 10)


async def test_a_timeout_of_the_client_can_only_be_shorter() -> None:
    async with Server(silent) as server, client(limits=TransferLimits(silence=30)) as http:
        with pytest.raises(httpx2.ReadTimeout):
            await http.get(server.url(), timeout=0.05)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", httpx2.RemoteProtocolError),
        (b"not http at all\r\n\r\n", httpx2.RemoteProtocolError),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 9_000 + b"\r\n\r\n",
            httpx2.RemoteProtocolError,
        ),
    ],
)
async def test_a_broken_answer_is_an_error_of_httpx2(answer: bytes, error: type[Exception]) -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        raise ConnectionError

    async with Server(broken) as server, client() as http:
        with pytest.raises(error, match=f"http://127.0.0.1:{server.port}"):
            await http.get(server.url())


# -- connections --------------------------------------------------------------------------------


async def test_a_connection_is_used_again_and_closed_with_the_client() -> None:
    lookup, asked = looking_up([PUBLIC])
    async with Server(answering(OK)) as server:
        async with client(lookup=lookup) as http:
            for _ in range(3):
                await http.get(server.url(host="a.example"))
            assert not server.closed.is_set()
        await asyncio.wait_for(server.closed.wait(), 10)

    assert server.connections == 1
    assert asked == ["a.example"]


@pytest.mark.parametrize("part", ["head", "body"])
async def test_a_cancel_closes_the_connection(part: str) -> None:
    began = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if part == "body":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        began.set()
        await silent(reader, writer)

    async with Server(hang) as server, client() as http:
        request = asyncio.create_task(http.get(server.url()))
        await began.wait()
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await asyncio.wait_for(server.closed.wait(), 10)


async def test_a_stream_that_is_left_closes_its_connection() -> None:
    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await silent(reader, writer)

    async with Server(stream) as server, client() as http:
        async with http.stream("GET", server.url()) as answer:
            async for piece in answer.aiter_bytes():
                assert piece == b"one"
                break
        await asyncio.wait_for(server.closed.wait(), 10)


# -- encryption ---------------------------------------------------------------------------------


async def test_tls_is_for_the_name_and_the_connection_for_the_address(tmp_path: Path) -> None:
    """The certificate is for `127.0.0.1` alone."""
    certificate = make_certificate(tmp_path)
    lookup, _ = looking_up([PUBLIC])
    tls = ssl.create_default_context(cafile=certificate)
    async with Server(answering(OK), tls=certificate) as server:
        async with client(lookup=lookup, tls=tls) as http:
            assert (await http.get(server.url(scheme="https"))).text == "ok"
            with pytest.raises(httpx2.ConnectError, match=r"a\.example"):
                await http.get(server.url(scheme="https", host="a.example"))
        async with client(lookup=lookup) as http:
            with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await http.get(server.url(scheme="https"))

    assert len(server.heads) == 1


async def test_a_redirect_does_not_leave_encryption(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    async with (
        Server(answering(OK)) as plain,
        Server(answering(redirecting(plain.url())), tls=certificate) as server,
        client(tls=ssl.create_default_context(cafile=certificate)) as http,
    ):
        with pytest.raises(RequestRefused, match="which is not encrypted"):
            await http.get(server.url(scheme="https"))

    assert plain.connections == 0


# -- without httpx2 -----------------------------------------------------------------------------


def test_without_httpx2_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['httpx2'] = None\n"
        "import awaken.net.url_policy, awaken.net.credentials\n"
        "try: import awaken.net.transport\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=250
    )

    assert "the extra 'google' brings: pip install 'awaken[google]'" in ran.stdout
