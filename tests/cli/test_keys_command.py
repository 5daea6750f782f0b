"""`awaken keys`."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path

import pytest

from awaken.cli import main
from awaken.server.keys import KeyFile, known_key


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
    found = asyncio.run(known_key(keys, {"authorization": f"bEaReR {key}"}))
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
    assert asyncio.run(known_key(keys, {"authorization": f"Bearer {key}"})) is None
    assert asyncio.run(known_key(keys, {"authorization": f"Bearer {other}"})) is not None
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
