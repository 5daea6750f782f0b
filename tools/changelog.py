"""Gathers the news of a release: `python tools/changelog.py 0.2.0`.

Every `changelog.d/<slug>.<kind>.md` becomes an entry of `CHANGELOG.md`, under the release and its
kind. The fragments are deleted once the file is written.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

HOME = Path(__file__).parents[1]
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
"""In the order in which a release shows them."""


def main(version: str, home: Path = HOME) -> None:
    changelog = home / "CHANGELOG.md"
    paths = sorted((home / "changelog.d").glob("*.md"))
    news = {path.name: path.read_text() for path in paths}
    day = time.strftime("%Y-%m-%d", time.gmtime())
    changelog.write_text(with_release(changelog.read_text(), version, day, news))
    for path in paths:
        path.unlink()


def with_release(changelog: str, version: str, day: str, news: Mapping[str, str]) -> str:
    """The changelog with a new release above the earlier ones.

    Raises:
        ValueError: there is no news, a fragment has an unknown kind or no text, or the version is
            malformed or already released.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", version):
        raise ValueError(f"{version!r} is not a version: write it as 1.2.3 or 1.2.3rc1")
    head, *earlier = re.split(r"^(?=## )", changelog, flags=re.MULTILINE)
    if any(release.split()[1] == version for release in earlier):
        raise ValueError(f"CHANGELOG.md already has the release {version}")
    if not news:
        raise ValueError("there is no news in changelog.d")
    entries: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name, text in news.items():
        kind = name.removesuffix(".md").rpartition(".")[2]
        if kind not in entries:
            raise ValueError(f"changelog.d/{name}: {kind!r} is none of {', '.join(KINDS)}")
        if not text.strip():
            raise ValueError(f"changelog.d/{name} is empty")
        entries[kind].append("- " + text.strip().replace("\n", "\n  "))
    sections = [
        f"### {kind.capitalize()}\n\n" + "\n".join(entries[kind]) for kind in KINDS if entries[kind]
    ]
    release = "\n\n".join([f"## {version} ({day})", *sections]) + "\n"
    return "\n".join([head.rstrip("\n") + "\n", release, *earlier]).rstrip("\n") + "\n"


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except ValueError as problem:
        sys.exit(f"nothing was changed: {problem}")
