"""The reference is made from the code, and leaves out nothing that is public."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import awaken
import awaken.testing
from awaken.cli.app import cli
from awaken.core import event
from page_blocks import HOME, public_names


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages of the site, as they are built from."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-W", "error", HOME / "tools" / "site_pages.py", folder],
        capture_output=True,
        encoding="utf-8",
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def headings(site: Path, page: str) -> list[str]:
    text = (site / "reference" / f"{page}.md").read_text()
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


def test_every_public_name_is_in_the_index_and_says_what_it_is(site: Path) -> None:
    index = (site / "reference" / "index.md").read_text()
    rows = re.findall(r"^\| \[`(\w+)`\]\(([\w-]+)\.md#(\w+)\) \| (.+) \|$", index, re.MULTILINE)
    assert {name for name, *_ in rows} == set(awaken.__all__) - {"__version__"}
    assert "`awaken.__version__`" in index
    for name, page, anchor, about in rows:
        assert anchor in [heading.lower() for heading in headings(site, page)], name
        assert about.strip(), name


def test_the_reference_describes_exactly_the_public_names(site: Path) -> None:
    public = public_names()
    described: dict[str, set[str]] = {"awaken": {"__version__"}}
    for page in (site / "reference").glob("*.md"):
        sections = re.findall(r"^## (\w+)\n\n<small>`(.+?)`</small>$", page.read_text(), re.M)
        for name, module in sections:
            described.setdefault(module, set()).add(name)

    # The names of `awaken.ext` are described in its folders.
    assert described.keys() == public.keys() - {"awaken.ext"}
    assert {name for names in described.values() for name in names} == {
        name for names in public.values() for name in names
    }
    for module, names in described.items():
        assert names <= public[module]


def test_what_users_call_has_a_docstring() -> None:
    for kind in (awaken.Agent, awaken.Runtime, awaken.Registrar, awaken.StateKey):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                assert member.__doc__, f"{kind.__name__}.{name}"


def test_every_event_command_error_and_helper_has_its_place(site: Path) -> None:
    events = {kind.__name__ for kind in event.Event.__subclasses__()}
    assert events <= set(headings(site, "events"))
    assert set(cli.list_commands(click.Context(cli))) == set(headings(site, "cli"))
    assert {"AwakenError", "ConfigError", "RateLimited", "ToolError"} <= set(
        headings(site, "errors")
    )
    assert set(awaken.testing.__all__) <= set(headings(site, "testing"))


def test_nothing_of_this_very_process_is_in_the_reference(site: Path) -> None:
    for page in (site / "reference").glob("*.md"):
        assert " at 0x" not in page.read_text(), page.name


def test_the_page_for_contributors_has_its_picture_and_its_tables(site: Path) -> None:
    page = (site / "contributing.md").read_text()
    assert "(import-graph.svg)" in page
    assert (site / "import-graph.svg").read_text().startswith("<svg")
    packages = {path.parent.name for path in (HOME / "src" / "awaken").glob("*/__init__.py")}
    for name in packages:  # what it is, what it imports, and how long it is
        assert len(re.findall(rf"^\| `{name}` \|", page, re.MULTILINE)) == 3, name


def test_examples_have_pages_and_links_lead_there(site: Path) -> None:
    examples = {path.stem for path in (HOME / "examples").glob("*.py")}
    assert {path.stem for path in (site / "examples").glob("*.md")} == {*examples, "index"}
    assert "](../examples/streaming_web.md)" in (site / "tutorial" / "4-streaming.md").read_text()
    for page in site.rglob("*.md"):
        assert not re.search(r"\]\([^)]*\.py\)", page.read_text()), page


def test_pages_of_the_reference_can_be_read(site: Path) -> None:
    for page in (site / "reference").glob("*.md"):
        assert len(page.read_text().split()) < 6_500, page.name
