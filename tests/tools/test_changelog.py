"""A release's news is gathered by one command, and a mistake changes nothing."""

import re
from pathlib import Path

import pytest

import changelog
from changelog import with_release
from page_blocks import HOME

EMPTY = "# Changelog\n\nFragments of the next release are in `changelog.d/`.\n"
NEWS = {
    "b.fixed.md": "A hole is closed.\n",
    "a.added.md": "A door,\nin two lines.\n",
    "c.added.md": "A window.\n",
}
FIRST = """\
# Changelog

Fragments of the next release are in `changelog.d/`.

## 0.1.0 (2026-01-31)

### Added

- A door,
  in two lines.
- A window.

### Fixed

- A hole is closed.
"""


def test_a_release_shows_its_news_by_kind() -> None:
    assert with_release(EMPTY, "0.1.0", "2026-01-31", NEWS) == FIRST


def test_a_release_stands_above_the_earlier_ones() -> None:
    text = with_release(FIRST, "0.2.0", "2026-02-28", {"d.changed.md": "A wall.\n"})
    assert re.findall(r"^## .*", text, re.MULTILINE) == [
        "## 0.2.0 (2026-02-28)",
        "## 0.1.0 (2026-01-31)",
    ]
    assert text.endswith(FIRST.partition("## 0.1.0")[2])


@pytest.mark.parametrize(
    ("version", "news", "problem"),
    [
        ("0.1.0", NEWS, "already has the release 0.1.0"),
        ("next", NEWS, "'next' is not a version"),
        ("0.2.0", {}, "no news"),
        ("0.2.0", {"a.nonsense.md": "x"}, "'nonsense' is none of added"),
        ("0.2.0", {"a.added.md": " \n"}, "a.added.md is empty"),
    ],
)
def test_what_cannot_be_released_is_refused(
    version: str, news: dict[str, str], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        with_release(FIRST, version, "2026-02-28", news)


def test_the_command_writes_the_changelog_and_deletes_the_fragments(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(EMPTY)
    (tmp_path / "changelog.d").mkdir()
    for name, text in NEWS.items():
        (tmp_path / "changelog.d" / name).write_text(text)

    changelog.main("0.1.0", tmp_path)

    written = (tmp_path / "CHANGELOG.md").read_text()
    assert "- A window." in written
    assert list((tmp_path / "changelog.d").iterdir()) == []
    with pytest.raises(ValueError, match="already has"):
        changelog.main("0.1.0", tmp_path)
    assert (tmp_path / "CHANGELOG.md").read_text() == written


def test_the_fragments_of_the_next_release_can_be_gathered() -> None:
    news = {path.name: path.read_text() for path in (HOME / "changelog.d").glob("*.md")}
    news["one-more.added.md"] = "There may be none yet.\n"
    text = with_release((HOME / "CHANGELOG.md").read_text(), "99.0.0", "2026-01-31", news)
    assert text.count("\n- ") >= len(news)
