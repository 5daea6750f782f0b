"""Addresses of SQLite files: what they mean, and how a wrong one is explained."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from awaken.errors import ConfigError
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite.address import Address, parse_address


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("sqlite:///awaken.db", Address("awaken.db")),
        ("sqlite:///data/my%20agents.db", Address("data/my agents.db")),
        ("sqlite:////var/lib/awaken.db", Address("/var/lib/awaken.db")),
        ("sqlite:///C:/data/awaken.db", Address("C:/data/awaken.db")),
        ("sqlite:///:memory:", Address(":memory:")),
        ("sqlite://", Address(":memory:")),
        ("sqlite:///a.db?synchronous=normal", Address("a.db", "normal")),
        ("sqlite:///a.db?synchronous=FULL&busy_timeout=0.5", Address("a.db", "full", 0.5)),
    ],
)
def test_an_address_names_a_file_and_its_options(address: str, expected: Address) -> None:
    assert parse_address(address) == expected


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgres://db", "'postgres://db' is not an SQLite address: write sqlite:///file.db"),
        ("awaken.db", "write sqlite:///file.db"),
        ("sqlite:awaken.db", "write sqlite:///file.db"),
        ("sqlite://awaken.db", "has a host, but SQLite is a local file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///a.db?cache=shared", "option 'cache'"),
        ("sqlite:///a.db?synchronous=off", "synchronous='off' is not known: write 'full'"),
        ("sqlite:///a.db?busy_timeout=soon", "busy_timeout='soon' is not a number of seconds"),
        ("sqlite:///a.db?busy_timeout=-1", "write 5 or 0.5"),
        ("sqlite:///a.db?busy_timeout=nan", "write 5 or 0.5"),
    ],
)
def test_a_wrong_address_says_what_to_write(address: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        SqliteStore.from_address(address)
    assert said in str(refused.value)


def test_wrong_arguments_are_refused_like_wrong_options() -> None:
    with pytest.raises(ConfigError, match="synchronous='extra'"):
        SqliteStore("a.db", synchronous="extra")
    with pytest.raises(ConfigError, match="busy_timeout=-1"):
        SqliteStore("a.db", busy_timeout=-1)


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "missing" / "a.db")

    assert os.listdir(tmp_path) == []
    assert store.path == str(tmp_path / "missing" / "a.db")
    assert store.immediate is False


def test_a_relative_file_stays_where_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore.from_address("sqlite:///a.db")
    monkeypatch.chdir("/")

    assert store.path == str(tmp_path / "a.db")
