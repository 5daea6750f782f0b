"""A NATS server with TLS and a password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats_kit import NatsServer, open_bus, open_server

from tls_kit import make_certificate

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


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
