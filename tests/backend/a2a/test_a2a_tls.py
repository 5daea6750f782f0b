"""Encrypted connections: the way to a host is pinned, and the host still has to prove its name."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a_harness import TOKEN, backend_for, root
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from awaken.core.backend import RemoteError
from awaken.net.url_policy import UrlRefused

pytestmark = pytest.mark.anyio

BODY = b'{"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "safe"}]}}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
ANSWER = HEAD % len(BODY) + BODY
DOWNGRADE = (
    b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://agent.test/\r\nContent-Length: 0\r\n\r\n"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of `agent.test`, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agent.test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("agent.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "agent.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@asynccontextmanager
async def serving(
    certificate: Path, answer: bytes = ANSWER
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """An agent that says one thing, by TLS; gives its port and what it heard."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in `.test` are this machine."""
    real = socket.getaddrinfo

    def lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
        here = isinstance(host, str) and host.endswith(".test")
        return real("127.0.0.1" if here else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


@pytest.mark.usefixtures("names")
async def test_a_host_that_proves_its_name_is_spoken_to(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with serving(certificate) as (port, heard):
        backend = backend_for(f"https://agent.test:{port}", auth={"type": "bearer", "token": TOKEN})
        result = await backend.execute_root(root("tls", "hello"))
    assert result.response == "safe"
    assert f"Host: agent.test:{port}".encode() in heard[0]
    assert TOKEN.encode() in heard[0]


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("host", ["other.test", "127.0.0.1"])
async def test_a_host_that_proves_another_name_hears_nothing(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with serving(certificate) as (port, heard):
        with pytest.raises(RemoteError, match="certificate verify failed"):
            await backend_for(f"https://{host}:{port}").execute_root(root("tls", "hello"))
    assert heard == []


@pytest.mark.usefixtures("names")
async def test_a_host_nobody_vouches_for_hears_nothing(certificate: Path) -> None:
    async with serving(certificate) as (port, heard):
        with pytest.raises(RemoteError, match="certificate verify failed"):
            await backend_for(f"https://agent.test:{port}").execute_root(root("tls", "hello"))
    assert heard == []


@pytest.mark.usefixtures("names")
async def test_nobody_is_led_from_an_encrypted_connection_to_an_open_one(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with serving(certificate, DOWNGRADE) as (port, heard):
        with pytest.raises(UrlRefused, match="which is not encrypted"):
            await backend_for(f"https://agent.test:{port}").execute_root(root("tls", "hello"))
    assert len(heard) == 1
