"""Fetches the libraries of the console's pages, and lays them where the pages load them from.

They are plain ES modules of npm packages, of exact versions, held against the digests below. `make`
and the build of the wheel use it; it needs npm, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).resolve().parents[1]
FOLDER = HOME / "src" / "awaken" / "server" / "console" / "static" / "vendor"


class Package(NamedTuple):
    """A package of npm, the digest of its archive, and what is taken out of it."""

    name: str
    version: str
    sha512: str
    files: dict[str, str]


PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        {
            "dist/preact.mjs": "preact.mjs",
            "hooks/dist/hooks.mjs": "hooks.mjs",
            "LICENSE": "preact.LICENSE",
        },
    ),
    Package(
        "@preact/signals-core",
        "1.14.5",
        "vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg==",
        {"dist/signals-core.mjs": "signals-core.mjs", "LICENSE": "signals-core.LICENSE"},
    ),
    Package(
        "@preact/signals",
        "2.11.4",
        "Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw==",
        {"dist/signals.mjs": "signals.mjs", "LICENSE": "signals.LICENSE"},
    ),
    Package(
        "htm",
        "3.1.1",
        "983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        {"dist/htm.mjs": "htm.mjs", "LICENSE": "htm.LICENSE"},
    ),
)

_PLACES = {
    b"preact": b"./preact.mjs",
    b"preact/hooks": b"./hooks.mjs",
    b"@preact/signals-core": b"./signals-core.mjs",
}
_IMPORT = re.compile(rb'from *"(%b)"' % b"|".join(map(re.escape, _PLACES)))
_SOURCE_MAP = re.compile(rb"\n?//# sourceMappingURL=\S+\s*$")


class WrongDigest(Exception):
    """An archive is not the one that was expected."""


class NoNpm(Exception):
    """npm is not there, or cannot fetch."""


def is_there(folder: Path = FOLDER) -> bool:
    """Whether the folder has these very versions."""
    try:
        return (folder / "versions.txt").read_text() == _versions()
    except OSError:
        return False


def fetch(folder: Path = FOLDER) -> None:
    """Fetch the libraries, unless they are there already.

    Raises:
        NoNpm: npm is not there, or cannot fetch.
        WrongDigest: an archive is not the one that was expected.
    """
    if is_there(folder):
        return
    with tempfile.TemporaryDirectory() as made:
        for package in PACKAGES:
            take(package, _pack(package, Path(made)), folder)
    _put(folder / "versions.txt", _versions().encode())


def take(package: Package, archive: Path, folder: Path) -> None:
    """Check an archive, and lay what is wanted of it into the folder.

    Raises:
        WrongDigest: it is not the archive that was expected.
    """
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != package.sha512:
        raise WrongDigest(f"{package.name} {package.version} has the sha512 {digest}")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as members:
        for inside, name in package.files.items():
            file = members.extractfile(f"package/{inside}")
            if file is None:
                raise WrongDigest(f"{package.name} {package.version} has no {inside}")
            source = file.read()
            _put(folder / name, _browsable(source) if name.endswith(".mjs") else source)


def _put(file: Path, content: bytes) -> None:
    """Write a file whole: another process may fetch, or serve, the same one."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(file)


def _browsable(source: bytes) -> bytes:
    """A module as a browser can load it: names of packages become addresses. Our checks of types
    leave it alone."""
    placed = _IMPORT.sub(lambda found: b'from"%b"' % _PLACES[found[1]], source)
    return b"// @ts-nocheck\n" + _SOURCE_MAP.sub(b"\n", placed)


def _pack(package: Package, into: Path) -> Path:
    """The archive of a package, as npm gives it."""
    npm = shutil.which("npm")
    if npm is None:
        raise NoNpm("npm is not installed")
    wanted = f"{package.name}@{package.version}"
    found = subprocess.run(
        [npm, "pack", wanted, "--silent", "--pack-destination", str(into)],
        capture_output=True,
        text=True,
        cwd=into,
    )
    if found.returncode:
        raise NoNpm(f"npm cannot fetch {wanted}: {found.stderr.strip() or found.stdout.strip()}")
    return into / found.stdout.strip().splitlines()[-1]


def _versions() -> str:
    return "".join(f"{package.name} {package.version} {package.sha512}\n" for package in PACKAGES)


if __name__ == "__main__":
    try:
        fetch()
    except NoNpm as error:
        sys.exit(f"the console's libraries are missing: {error}")
