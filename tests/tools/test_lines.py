"""Lines are counted as code, prose or blank, by package."""

from pathlib import Path

from lines import Lines, count, packages_of, table
from page_blocks import HOME

CODE = '''"""Says what it is.

At length.
"""

# A reason.
LIMIT = 3  # code with a comment is code
"""What it limits."""


def longest():
    """Text."""
    text = """
    not prose, and not blank:

    """
    return text


def short(): ...
'''


def test_docstrings_and_comments_are_prose_and_other_texts_are_code() -> None:
    lines = count(CODE, "a.py")
    assert (lines.code, lines.prose, lines.blank) == (8, 7, 5)
    assert lines.largest == (20, "a.py")
    assert lines.longest == (7, "a.py:longest")


def test_each_package_is_a_row_and_single_modules_share_one(tmp_path: Path) -> None:
    for name in ("errors.py", "clock.py", "loop/__init__.py", "loop/deep/step.py"):
        path = tmp_path / "src" / "awaken" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")

    packages = packages_of(tmp_path)

    assert {name: (each.files, each.code) for name, each in packages.items()} == {
        "modules": (2, 2),
        "loop": (2, 2),
    }
    assert list(table(packages, None))[2:] == [
        "| `loop` | 2 | 2 | 0 | 0 | 1: `loop/deep/step.py` |  |",
        "| `modules` | 2 | 2 | 0 | 0 | 1: `errors.py` |  |",
        "| `all` | 4 | 4 | 0 | 0 | 1: `loop/deep/step.py` |  |",
    ]


def test_packages_that_came_or_went_have_a_row_in_a_comparison() -> None:
    rows = list(table({"new": Lines(1, 5)}, {"old": Lines(1, 9)}))
    assert [row.split("|")[1:5] for row in rows[2:]] == [
        [" `new` ", " 1 ", " 0 ", " 5 "],
        [" `old` ", " 0 ", " 9 ", " 0 "],
        [" `all` ", " 1 ", " 9 ", " 5 "],
    ]


def test_only_the_module_of_all_errors_has_more_than_600_lines() -> None:
    source = HOME / "src" / "awaken"
    long = [path for path in source.rglob("*.py") if len(path.read_text().splitlines()) > 600]
    assert [path.relative_to(source).as_posix() for path in long] == ["errors.py"]
