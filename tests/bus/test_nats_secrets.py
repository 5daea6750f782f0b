"""A NATS server with TLS and a password."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from nats_kit import NatsServer, open_bus, open_server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this machine's own address, with its key beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nats")])
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=36500))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "nats.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    file.with_suffix(".key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return file


@pytest.fixture(scope="module")
def locked_server(certificate: Path) -> Iterator[NatsServer]:
    config = (
        f'tls {{ cert_file: "{certificate}", key_file: "{certificate.with_suffix(".key")}" }}\n'
        'authorization { user: me, password: "hunter2/@", permissions: '
        '{ publish: "awk.>", subscribe: "awk.>" } }\n'
    )
    with open_server(config) as server:
        yield server


async def test_credentials_go_over_tls_and_one_subject_is_enough(
    locked_server: NatsServer, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An account that may use `awk.>` alone is not refused anything."""
    address = f"tls://me:hunter2%2F%40@127.0.0.1:{locked_server.port}/d?ca={certificate}"
    async with open_bus(address) as one, open_bus(address) as other:
        assert one.health.is_up
        async with one.listen("t"):
            assert await one.snapshot("t") is None
        assert other.health.is_up
    assert not [record for record in caplog.records if record.name == "awaken.bus"]


@pytest.mark.parametrize(
    ("login", "trusts", "told"),
    [
        ("me:wrong-word", True, "Authorization Violation|are the credentials right"),
        ("wrong-word", True, "Authorization Violation|are the credentials right"),
        ("me:hunter2%2F%40", False, "certificate verify failed"),
    ],
)
async def test_a_server_that_refuses_or_is_not_trusted_is_away(
    locked_server: NatsServer,
    certificate: Path,
    caplog: pytest.LogCaptureFixture,
    login: str,
    trusts: bool,
    told: str,
) -> None:
    ca = f"?ca={certificate}" if trusts else ""
    async with open_bus(f"tls://{login}@127.0.0.1:{locked_server.port}{ca}") as bus:
        assert not bus.health.is_up
    assert re.search(told, caplog.text)
    assert "wrong-word" not in caplog.text
    assert "hunter2" not in caplog.text
