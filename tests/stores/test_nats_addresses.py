"""The address of a bus over NATS: what it says, and what is said of a wrong one."""

from __future__ import annotations

import sys

import pytest

from awaken import Agent, Runtime
from awaken.errors import ConfigError
from awaken.stores.bus.nats.address import read_address


def test_an_address_names_servers_credentials_and_a_deployment() -> None:
    read = read_address("nats://me:p%40ss%2Fword@one,two:4223,[::1]:4224/prod%20eu?ca=/etc/ca.pem")

    assert read.servers == ("nats://one:4222", "nats://two:4223", "nats://[::1]:4224")
    assert read.user == "me"
    assert read.secret is not None
    assert read.secret.expose_secret() == "p@ss/word"
    assert (read.deployment, read.is_tls, read.ca) == ("prod eu", False, "/etc/ca.pem")
    assert "word" not in repr(read)


def test_an_address_may_have_a_token_and_demand_tls() -> None:
    read = read_address("tls://s3cret@host")

    assert read.user is None
    assert read.secret is not None
    assert read.secret.expose_secret() == "s3cret"
    assert (read.servers, read.is_tls) == (("nats://host:4222",), True)
    assert "s3cret" not in repr(read)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("nats://", "names no host"),
        ("nats://me:hunter2@", "names no host"),
        ("nats://me:hunter2@host,", "names no host"),
        ("nats://me:hunter2@host:70000", "the port is not a number"),
        ("nats://me:hunter2@host:x", "the port is not a number"),
        ("nats://me:hunter2@host?pool=3", "option 'pool' is unknown; known: ca"),
        ("nats://me:hunter2@[host", "is malformed"),
        ("redis://me:hunter2@host", "write 'nats://host:4222'"),
        ("host:4222", "write 'nats://host:4222'"),
        ("", "write 'nats://host:4222'"),
    ],
)
def test_a_wrong_address_is_refused_at_once_without_its_password(address: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Runtime([Agent("a", model="demo")], bus=address)

    assert told in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("awaken.bus.NatsBus")  # the door keeps what it has loaded
    monkeypatch.setitem(sys.modules, "nats", None)
    for name in [name for name in sys.modules if name.startswith("awaken.stores.bus.nats")]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(ConfigError) as refused:
        Runtime([Agent("a", model="demo")], bus="nats://me:hunter2@host")

    assert "pip install 'awaken[nats]'" in str(refused.value)
    assert "hunter2" not in str(refused.value)
