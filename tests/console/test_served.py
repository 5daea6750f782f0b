"""The commands that serve the console print its address, and that address works."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Browser, expect
from starlette.applications import Starlette
from starlette.testclient import TestClient

from awaken.server.console import Pages
from awaken.server.console.pages import FOLDER
from awaken.server.keys import add_key
from browser_kit import HOME


def serve(folder: Path, *words: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A server in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "awaken.cli", *words, "--port", "0"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def lines_of(process: subprocess.Popen[str]) -> dict[str, str]:
    """What a server prints when it is ready, by the first word of each line."""
    assert process.stdout is not None
    lines: dict[str, str] = {}
    while "stop" not in lines:
        first, _, rest = process.stdout.readline().strip().partition(" ")
        lines[first] = rest.strip()
    return lines


def test_a_link_works_once_another_is_made_for_it_and_with_keys_one_signs_in(
    tmp_path: Path,
) -> None:
    """07/CO-4, through the commands themselves."""
    add_key(tmp_path / "keys.toml", name="ann", roles=("read",))
    alone = serve(tmp_path, "console", "--no-open")
    keyed = serve(tmp_path, "serve", "--keys", "keys.toml")
    try:
        place, _, word = lines_of(alone)["console"].partition("#t=")
        assert httpx2.get(place).text.startswith("<!doctype html>")
        port = place.removesuffix("/console/").rpartition(":")[2]
        link = [sys.executable, "-m", "awaken.cli", "console", "--link", "--port", port]
        more = subprocess.run(link, capture_output=True, text=True, check=True).stdout.strip()
        assert more.startswith(f"{place}#t=")
        words = (word, word, more.partition("#t=")[2])
        made = [httpx2.post(f"{place}../v1/session", json={"word": one}) for one in words]
        assert [answer.status_code for answer in made] == [201, 401, 201]
        assert httpx2.get(f"{place}../v1/agents").json()["items"] == []
        assert lines_of(keyed)["console"].endswith("/console/")
    finally:
        for process in (alone, keyed):
            process.kill()
            process.communicate()


@pytest.fixture
def wheel(tmp_path: Path) -> set[str]:
    """The console's files in a wheel, which is laid out in the folder `installed`."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=HOME, check=True, capture_output=True, timeout=120)
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as packed:
        packed.extractall(tmp_path / "installed")
        return {name for name in packed.namelist() if "/console/static/" in name}


@pytest.mark.anyio
async def test_the_wheel_has_the_page_with_its_licences_and_serves_it_without_a_network(
    tmp_path: Path, browser: Browser, wheel: set[str]
) -> None:
    """07/CO-2, 07/CO-1: installed elsewhere, without Node, the page works, and no request leaves
    the machine: those that would are sent to a proxy, which nobody has called in the end."""
    home = FOLDER.relative_to(HOME / "src")
    files = {str(home / path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert wheel == files
    assert sum(name.endswith(".LICENSE") for name in wheel) == 4
    alone = {"PYTHONPATH": str(tmp_path / "installed"), "PATH": "/usr/bin:/bin", "HOME": "/"}
    served = serve(tmp_path, "console", "--no-open", env=alone)
    called: list[int] = []
    proxy = await asyncio.start_server(lambda reader, writer: called.append(1), "127.0.0.1", 0)
    context = await browser.new_context(
        proxy={
            "server": f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}",
            "bypass": "127.0.0.1",
        }
    )
    try:
        page = await context.new_page()
        await page.goto((await asyncio.to_thread(lines_of, served))["console"])
        await expect(page.get_by_text("No threads yet")).to_be_visible()
        await page.get_by_role("link", name="Runs").click()
        await expect(page.get_by_text("No runs yet")).to_be_visible()
        assert called == []
    finally:
        await context.close()
        proxy.close()
        served.kill()
        served.communicate()


def test_a_wheel_without_the_libraries_says_how_to_get_them(tmp_path: Path) -> None:
    """07/CO-2."""
    (tmp_path / "index.html").write_text("<!doctype html>")
    pages = Pages(tmp_path)
    assert not pages.is_there
    client = TestClient(Starlette(routes=[*pages.routes()]))
    answer = client.get("/console/")
    assert answer.status_code == 404
    assert "make console" in answer.text
