"""The picture of the packages: complete, and every arrow points down."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from import_graph import Tree, direct, drawing, imports_table, read_tree
from page_blocks import HOME

SVG = "{http://www.w3.org/2000/svg}"
SMALL = Tree(
    layers=[["events"], ["top"], ["left", "right"], ["base"], ["errors"]],
    files={"top": 3, "left": 1, "right": 1, "base": 2},
    imports={
        ("top", "left"): 4,
        ("top", "right"): 5,
        ("top", "base"): 6,
        ("left", "base"): 7,
        ("right", "base"): 8,
    },
)


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_every_package_is_in_the_picture_once() -> None:
    packages = {path.parent.name for path in (HOME / "src" / "awaken").glob("*/__init__.py")}
    shown = texts(drawing(read_tree(HOME)))
    assert sorted(each for each in shown if each in packages) == sorted(packages)


def test_every_arrow_points_down() -> None:
    picture = ElementTree.fromstring(drawing(read_tree(HOME)))
    arrows = [each.get("d", "") for each in picture.iter(f"{SVG}path") if each.get("marker-end")]
    assert arrows
    for arrow in arrows:
        heights = [float(y) for y in re.findall(r"[-\d.]+ ([-\d.]+)", arrow)]
        assert heights == sorted(heights)


def test_an_arrow_that_a_longer_path_implies_is_left_out() -> None:
    assert ("top", "base") not in direct(SMALL.imports)
    counts = [each for each in texts(drawing(SMALL)) if each.isdigit()]
    assert sorted(counts) == ["4", "5", "7", "8"]


def test_the_table_has_every_pair() -> None:
    assert imports_table(SMALL).splitlines()[2:] == [
        "| `top` | `left` 4, `right` 5, `base` 6 |",
        "| `left` | `base` 7 |",
        "| `right` | `base` 8 |",
        "| `base` | no other package |",
    ]


def test_single_modules_stand_above_and_beneath_the_packages() -> None:
    shown = texts(drawing(SMALL))
    assert "events" in shown
    assert "errors" in shown


def test_an_import_that_points_up_cannot_be_drawn() -> None:
    upwards = Tree(SMALL.layers, SMALL.files, {("base", "top"): 1})
    with pytest.raises(ValueError, match="base imports top"):
        drawing(upwards)


def test_imports_are_counted_by_statement(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[[tool.importlinter.contracts]]\ntype = 'layers'\nlayers = ['top', 'base', 'errors']\n"
    )
    for name, code in {
        "top/__init__.py": "from awaken.base.deep import One, Two\nfrom awaken.top import part\n",
        "top/part.py": "import os\nfrom awaken import base\nfrom awaken.errors import Error\n",
        "base/__init__.py": "",
        "errors.py": "",
    }.items():
        path = tmp_path / "src" / "awaken" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)

    tree = read_tree(tmp_path)

    assert tree.imports == {("top", "base"): 2}
    assert tree.files == {"top": 2, "base": 1}
