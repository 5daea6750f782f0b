"""How pages are read: no block is overlooked, and a page that says something wrong is noticed."""

import re
from pathlib import Path

import pytest
import test_howto_pages
import test_tutorial_pages

import page_blocks
from page_blocks import HOME, Outcome, check_block, fits, pages, read_page


def test_no_page_has_a_block_that_is_not_run() -> None:
    run = [str(block) for block in (*test_howto_pages.BLOCKS, *test_tutorial_pages.BLOCKS)]
    assert sorted(run) == sorted(str(block) for page in pages() for block in read_page(page))


def test_every_page_is_in_the_navigation() -> None:
    config = (HOME / "zensical.toml").read_text()
    assert [page for page in pages() if f'"{page.removeprefix("docs/")}"' not in config] == []


def test_links_lead_to_pages_and_headings_that_are_there() -> None:
    lost = [
        f"{page}: {target}"
        for page in ("README.md", *pages())
        for target in re.findall(r"\]\(([^)\s]+)\)", (HOME / page).read_text())
        if ":" not in target and not _leads_somewhere(Path(page), target)
    ]
    assert lost == []


def _leads_somewhere(page: Path, target: str) -> bool:
    name, _, heading = target.partition("#")
    if "reference/" in name or name == "import-graph.svg":
        return True  # made from the code; see `test_reference_pages`
    file = HOME / page.parent / (name or page.name)
    if not heading:
        return file.exists()
    titles = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
    return heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of one's own, instead of those of the documentation."""
    monkeypatch.setattr(page_blocks, "HOME", tmp_path)
    page_blocks.outcomes_of.cache_clear()
    return tmp_path / "page.md"


def _blocks(page: Path, text: str) -> list[page_blocks.Block]:
    page.write_text(text)
    return read_page(page.name)


def test_files_and_commands_of_a_page_see_each_other(page: Path) -> None:
    (app, command, again) = _blocks(
        page,
        '```python title="app.py"\nprint("from", __name__)\n```\n\n```text\nfrom __main__\n```\n'
        "\n```sh\nWORD=hello python app.py  # twice\n```\n\n```text\nfrom …\n```\n"
        "\n```python\nimport app\n```\n\n```text\nfrom app\n```\n",
    )
    for block in (app, command, again):
        check_block(block)


def test_what_a_reader_does_not_see_comes_first(page: Path) -> None:
    (block,) = _blocks(
        page,
        '<!-- setup:\nimport os\nos.environ["WORD"] = "hello"\n-->\n<!-- exits: 3 -->\n'
        '```python\nimport os, sys\nprint(os.environ["WORD"])\nsys.exit(3)\n```\n'
        "\n```text\nhello\n```\n",
    )
    check_block(block)


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\nimport sys\nprint(1, file=sys.stderr)\n```\n",
        "```python\nraise SystemExit(1)\n```\n",
        "```python\nopen('x', 'w')\n```\n",
        "```sh\nawaken threads\n```\n\n```text\nmany\n```\n",
        "```sh\npip install 'awaken[nonsense]'\n```\n",
        "```sh\nfrobnicate\n```\n",
    ],
)
def test_a_block_that_does_not_do_what_it_says_fails(page: Path, text: str) -> None:
    (page.parent / "pyproject.toml").write_text("[project.optional-dependencies]\nopenai = []\n")
    (block,) = _blocks(page, text)
    with pytest.raises(AssertionError):
        check_block(block)


def test_a_command_that_is_only_shown_is_read_all_the_same(page: Path) -> None:
    (good, _) = _blocks(
        page,
        "<!-- shown -->\n```sh\nawaken watch case-7 --json\n```\n"
        "\n<!-- shown -->\n```sh\nawaken watch case-7\n```\n",
    )
    check_block(good)
    (bad,) = _blocks(page, "<!-- shown -->\n```sh\nawaken watch case-7 --colour red\n```\n")
    page_blocks.outcomes_of.cache_clear()
    with pytest.raises(AssertionError, match="colour"):
        check_block(bad)


@pytest.mark.parametrize(
    "text",
    [
        "```\nwhat is this\n```\n",
        "```ruby\nputs 1\n```\n",
        "```python run=no\nprint(1)\n```\n",
        "<!-- skip -->\n```python\nprint(1)\n```\n",
        "- a list:\n\n  ```python\n  print(1)\n  ```\n",
        "```python\nprint(1)\n",
    ],
)
def test_a_block_that_nobody_would_run_is_an_error(page: Path, text: str) -> None:
    with pytest.raises(ValueError, match="page"):
        _blocks(page, text)


def test_an_ellipsis_stands_for_anything() -> None:
    assert fits("a … c\n", "a b b c\n")
    assert fits("a\n…\nd\n", "a\nb\nc\nd\n")
    assert fits("a\n…\n", "a\n")
    assert not fits("a … c\n", "a b\n")
    assert fits("took 0.1 s\n", "took 2.3 s\n")
    assert not fits("a\n", "a\nb\n")


def test_an_outcome_is_that_of_its_own_block(page: Path) -> None:
    first, second = _blocks(page, "```python\npass\n```\n\n```python\npass\n```\n")
    assert page_blocks.outcomes_of(page.name) == [Outcome("", "", 0)] * 2
    check_block(first)
    check_block(second)
