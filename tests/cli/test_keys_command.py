"""`awaken keys`."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path

import pytest

from awaken.cli import main
from awaken.core.access import KeyEntry, Terms
from awaken.core.budget import Budget
from awaken.server.keys import KeyFile, StoreKeys, add_key, find_key
from awaken.stores.sqlite import SqliteStore


def _run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["keys", *args])
    said = capsys.readouterr()
    return code, said.out.strip(), said.err.strip()


def test_keys_are_made_listed_and_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys.toml"
    at = ("--keys", str(file))
    code, key, _ = _run(
        capsys,
        "add",
        "--name",
        "web",
        "--scope",
        "acme",
        "--role",
        "invoke",
        "--agents",
        "a,b",
        *at,
    )
    _, other, _ = _run(capsys, "add", "--role", "admin", *at)
    assert code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert key not in file.read_text()
    file.write_text("# ours\n" + file.read_text())
    keys = KeyFile(file)
    found = asyncio.run(find_key(keys, {"authorization": f"bEaReR {key}"}))
    assert found is not None
    known = found[1].principal(found[0])
    assert (known.id, known.scope, known.roles, known.agents) == (
        "web",
        "acme",
        ("invoke",),
        ("a", "b"),
    )
    _, listed, _ = _run(capsys, "list", "--json", *at)
    first, second = json.loads(listed)
    assert (first["name"], second["roles"]) == ("web", ["admin"])
    assert _run(capsys, "revoke", first["id"], *at)[0] == 0
    assert asyncio.run(find_key(keys, {"authorization": f"Bearer {key}"})) is None
    assert asyncio.run(find_key(keys, {"authorization": f"Bearer {other}"})) is not None
    assert file.read_text().startswith("# ours\n")
    assert "web" not in _run(capsys, "list", *at)[1]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("list",), "make one with `awaken keys add"),
        (("revoke", "x"), "make one with `awaken keys add"),
        (("add", "--role", "admin", "--scope", "A/B"), "a scope has 1 to 63 characters"),
        (("add", "--role", "king"), "is not one of"),
    ],
)
def test_a_mistake_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], said: str
) -> None:
    code, _, err = _run(capsys, *args, "--keys", str(tmp_path / "keys.toml"))
    assert code == 2
    assert said in err
    assert not list(tmp_path.iterdir())


def test_keys_are_kept_in_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by its address, or by the word `store` for the store that every command uses."""
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/shop.db"
    at = ("--store", address)
    said = ("add", "--role", "read", "--rate", "2.5", "--budget", "tokens=50,money=0.5")
    code, key, _ = _run(capsys, *said, "--name", "web", *at)
    assert (code, key[:4]) == (0, "awk_")
    monkeypatch.setenv("AWAKEN_STORE", address)
    assert _run(capsys, "add", "--role", "admin", "--keys", "store")[0] == 0
    first, second = sorted(
        json.loads(_run(capsys, "list", "--json", *at)[1]), key=lambda one: one["roles"]
    )
    assert (first["roles"], second["name"], second["roles"]) == (["admin"], "web", ["read"])

    async def look() -> tuple[tuple[str, KeyEntry] | None, bytes]:
        store = SqliteStore(tmp_path / "shop.db")
        try:
            head = {"authorization": f"Bearer {key}"}
            return await find_key(StoreKeys(store.access), head), key.encode()
        finally:
            await store.close()

    found, secret = asyncio.run(look())
    assert found is not None
    assert found[1].terms == Terms(rate=2.5, budget=Budget(tokens=50, money=0.5))
    assert secret not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert _run(capsys, "revoke", second["id"], "--keys", "store")[0] == 0
    assert asyncio.run(look())[0] is None
    assert not (tmp_path / "keys.toml").exists()
    code, _, err = _run(capsys, "revoke", second["id"], *at)
    assert (code, "the store has no key" in err) == (2, True)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("list", "--store", "sqlite:///none.db"), "there is no store at"),
        (("add", "--role", "read", "--store", "memory:"), "name a store that stays"),
        (("list", "--store", "sqlite:///a.db", "--keys", "k.toml"), "name either a file"),
        (("add", "--role", "read", "--budget", "tokens=many"), "is no budget"),
        (("add", "--role", "read", "--rate", "0"), "rate is above 0"),
        (("add", "--role", "read", "--scope", "A/B", "--store", "sqlite:///b.db"), "a scope has"),
    ],
)
def test_a_mistake_about_stores_is_explained(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = _run(capsys, *args)
    assert code == 2
    assert said in err
    assert not (tmp_path / "keys.toml").exists()


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("[keys.{id}]", '[keys."{id}"]'),
        ("[keys.{id}]", "  [keys.{id}]"),
        ("[keys.{id}]", "[ keys . {id} ]"),
        ("[keys.{id}]", "[keys.{id}]\nname = 'x'\n  [keys.other]"),
    ],
    ids=["quoted", "indented", "with blanks", "before an indented one"],
)
def test_a_key_that_cannot_be_taken_out_is_said_to_be_still_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str, otherwise: str
) -> None:
    file = tmp_path / "keys.toml"
    id = add_key(file, name="web", roles=("invoke",)).split("_")[1]
    text = file.read_text().replace("name =", "# name =")
    entry = text.partition("]\n")[2]
    text = text.replace(written.format(id=id), otherwise.format(id=id))
    if "other" in text:
        text = text.replace("name = 'x'\n", "name = 'x'\n" + entry)
    file.write_text(text)
    assert id in KeyFile(file).content.keys
    code, out, err = _run(capsys, "revoke", id, "--keys", str(file))
    assert code != 0
    assert out == ""
    assert f"key '{id}' is NOT revoked" in err
    assert "by hand" in err
    assert file.read_text() == text, "the file stays as it was"
    assert id in KeyFile(file).content.keys
