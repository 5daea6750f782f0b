"""Puts together the pages of the documentation's site: `python tools/site_pages.py build/docs`.

The pages of `docs/` are copied; links to examples lead to pages that are made here. The reference
is made from the docstrings (see `reference.py`), and the contributors' page gets its picture and
its tables from the code (see `import_graph.py` and `lines.py`).
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from pathlib import Path

from import_graph import drawing, imports_table, read_tree
from lines import packages_of, table
from reference import reference_pages

HOME = Path(__file__).parents[1]
EXAMPLES = HOME / "examples"


def main(folder: Path) -> None:
    """Write all pages into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    examples = {path.stem: path.read_text() for path in sorted(EXAMPLES.glob("*.py"))}
    for page in (HOME / "docs").rglob("*.md"):
        path = page.relative_to(HOME / "docs")
        write(folder / path, with_example_pages(page.read_text(), path, set(examples)))
    shutil.copytree(HOME / "docs" / "img", folder / "img")
    add_pictures_of_the_code(folder)
    for name, text in reference_pages().items():
        write(folder / "reference" / f"{name}.md", text)
    for name, code in examples.items():
        write(folder / "examples" / f"{name}.md", f"# {name}.py\n\n```python\n{code}```\n")
    write(folder / "examples" / "index.md", index_of(examples))


def with_example_pages(text: str, name: Path, examples: set[str]) -> str:
    """A page whose links to files in `examples/` lead to their pages.

    Raises:
        ValueError: there is no such example, or a link leads out of the site.
    """

    def page(link: re.Match[str]) -> str:
        if link[2] not in examples:
            raise ValueError(f"docs/{name}: there is no example {link[2]}.py")
        return f"]({link[1].removeprefix('../')}examples/{link[2]}.md)"

    text = re.sub(r"\]\(((?:\.\./)+)examples/(\w+)\.py\)", page, text)
    for target in re.findall(r"\]\((\.[^)#]*)", text):
        if not target.endswith(".md"):
            raise ValueError(f"docs/{name}: {target} is no page, and not part of the site")
    return text


def add_pictures_of_the_code(folder: Path) -> None:
    """Draw the imports, and fill in the tables of the contributors' page.

    Raises:
        ValueError: the page has no place for one of the tables.
    """
    tree = read_tree(HOME)
    write(folder / "import-graph.svg", drawing(tree))
    page = folder / "contributing.md"
    text = page.read_text()
    tables = {"imports": imports_table(tree), "lines": "\n".join(table(packages_of(HOME), None))}
    for name, rows in tables.items():
        if f"<!-- {name} -->" not in text:
            raise ValueError(f"docs/{page.name}: there is no place for the table of {name}")
        text = text.replace(f"<!-- {name} -->", rows)
    page.write_text(text)


def index_of(examples: dict[str, str]) -> str:
    lines = ["# Examples", "", "Short programs that need no key; the tests run them all.", ""]
    for name, code in examples.items():
        about = (ast.get_docstring(ast.parse(code)) or "").partition("\n")[0]
        lines.append(f"- [{name}.py]({name}.md): {about}")
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
