"""The code on a page of the documentation, run as a reader would, from top to bottom.

A page has a folder of its own, and each block is run in it, in a process of its own:

- `python` is a program. With `title="app.py"` it is saved under that name, for blocks further on.
- `sh` are commands. `awaken` and `python` are run; of others, such as `pip`, it is checked that
  what they name is there.
- `js` is a program for Node, beside a server (see `serve` below); it may import what the test kit
  has.
- `text` right beneath is what is printed. In it, `…` stands for anything, and a line of it for any
  lines. A program that ends by SIGKILL prints `Killed`, as a shell does. Without such a block, a
  program prints nothing.

What a reader does not see stands in comments above a block:

- `<!-- setup: … -->` is Python that is run first, in the same process.
- `<!-- models: demo -->` has the demo model answer for whatever provider is named: no key needed.
- `<!-- pytest -->` says that the program is a file of tests, which pass.
- `<!-- serve: app.py -->` has `awaken serve app.py` run beside a `js` block. The usual port on the
  page stands for that of this server.
- `<!-- exits: 3 -->` is the exit code to expect.
- `<!-- shown -->` has commands and programs for browsers checked, but not run.
- `<!-- theirs: langgraph -->` says that the program is another library's, which the tests do not
  have: it is only compiled here, and run by `make theirs`.
- `<!-- from: examples/chat_page/chat.jsx -->` says that `jsx` is a part of that file, which has
  tests of its own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

HOME = Path(__file__).parents[1]
RUNNER = Path(__file__).with_name("page_runner.py")
LANGUAGES = {"python", "sh", "js", "jsx", "text", "toml", "json"}
COMMANDS = {"awaken", "python", "pip", "make", "export", "cd", "ollama", "pytest", "npm", "curl"}
"""What a reader is asked to type; anything else is a mistake, or belongs in this list."""

_FENCE = re.compile(
    r"(?P<notes>(?:^<!--(?:(?!-->).)*-->\s*)*)"
    r"^```(?P<language>[a-z]*)(?P<options>[^\n]*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_NOTE = re.compile(r"<!--\s*(?P<name>[a-z]+)(?::(?P<value>(?:(?!-->).)*))?\s*-->", re.DOTALL)
_VARYING = (
    (re.compile(r"\b\d+\.\d s\b"), "0.0 s"),
    (re.compile(r"\bjust now\b|\b\d+ s ago\b"), "just now"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\bdigest [0-9a-f]{32}\b"), "digest"),
    (re.compile(r" {2,}"), "  "),
)
"""Durations, ages, ids and the width of columns: different each time, and not what is shown."""
_TITLE = re.compile(r'title="([^"]+)"')


def blocks_of(page: str) -> list[str]:
    """The Python blocks of a page, in order; the page is named from the project's folder."""
    return re.findall(r"```python[^\n]*\n(.*?)```", (HOME / page).read_text(), re.DOTALL)


def run_block(block: str, folder: Path) -> str:
    """Save a block as a program and run it there: what it prints. A warning is an error."""
    program = folder / "block.py"
    program.write_text(block)
    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# -- pages ------------------------------------------------------------------------------------


@dataclass
class Block:
    """A block of a page that is run, or whose commands are checked."""

    page: str
    line: int
    language: str
    code: str
    name: str | None = None
    notes: dict[str, str] = field(default_factory=dict)
    prints: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[list[str]]:
        """The commands of a `sh` block, as words."""
        if self.language != "sh":
            return []
        lines = self.code.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def pages() -> list[str]:
    """All pages of the documentation."""
    return sorted(str(path.relative_to(HOME)) for path in (HOME / "docs").rglob("*.md"))


def public_names() -> dict[str, set[str]]:
    """The names of each public module, as the page of the public API lists them."""
    page = (HOME / "docs" / "public.md").read_text()
    sections = re.findall(
        r"^## (awaken[\w.]*)$.*?^```text$(.*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    return {module: set(names.split()) for module, names in sections}


def blocks_to_run(*globs: str, but: str = "") -> list[Block]:
    """The blocks of the pages that fit, page by page."""
    found = sorted({str(path.relative_to(HOME)) for glob in globs for path in HOME.glob(glob)})
    return [block for page in found if page != but for block in read_page(page)]


def read_page(page: str) -> list[Block]:
    """The blocks of a page, in order.

    Raises:
        ValueError: a fence or a comment is not understood, so nobody would run the block.
    """
    text = (HOME / page).read_text()
    found: list[Block] = []
    end = 0
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start("code"))
        language, options = fence["language"], fence["options"].strip()
        title = _TITLE.fullmatch(options)
        if language not in LANGUAGES or (options and title is None):
            raise ValueError(f"{page}:{line}: a fence of {language!r} {options}, which nobody runs")
        notes = {
            note["name"]: (note["value"] or "").strip() for note in _NOTE.finditer(fence["notes"])
        }
        known = {"setup", "models", "pytest", "exits", "shown", "serve", "from", "theirs"}
        if unknown := notes.keys() - known:
            raise ValueError(f"{page}:{line}: nobody knows what {unknown} means")
        if language == "jsx" and fence["code"] not in (HOME / notes.get("from", "")).read_text():
            raise ValueError(f"{page}:{line}: this is not in {notes['from']}")
        if language == "text":
            if found and not text[end : fence.start()].strip():
                found[-1].prints = fence["code"]
        elif language in ("python", "sh", "js"):
            name = title[1] if title else None
            found.append(Block(page, line, language, fence["code"], name, notes))
        end = fence.end()
    if len(found) != len(re.findall(r"^ *```(?:python|sh|js)\b", text, re.MULTILINE)):
        raise ValueError(f"{page}: a block is indented or not closed, so nobody runs it")
    return found


@dataclass(frozen=True)
class Outcome:
    """What a block printed, and how it ended."""

    output: str
    errors: str
    status: int


@cache
def outcomes_of(page: str) -> list[Outcome]:
    """Run the blocks of a page, once; each is in a process of its own, all in one folder."""
    blocks = read_page(page)
    if not blocks:
        return []
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "error", RUNNER, folder],
            input=json.dumps([asdict(block) | {"commands": block.commands} for block in blocks]),
            capture_output=True,
            encoding="utf-8",
            env={**_plain_environment(), "COLUMNS": "100", "PYTHONUTF8": "1"},
            timeout=250,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [Outcome(**each) for each in json.loads(done.stdout)]


def _plain_environment() -> dict[str, str]:
    """What a reader without any key has in the environment."""
    secret = re.compile(r".*_(API_KEY|BASE_URL)$|AWAKEN_.*|GOOGLE_.*|AWS_.*|PYTEST_.*")
    return {name: value for name, value in os.environ.items() if not secret.match(name)}


def check_block(block: Block) -> None:
    """A block of a page runs, and prints what it says it prints."""
    __tracebackhide__ = True
    outcome = outcomes_of(block.page)[read_page(block.page).index(block)]
    expected = int(block.notes.get("exits") or 0)
    told = f"{block}:\n{outcome.output}{outcome.errors}"
    killed = "Killed" in (block.prints or "")
    assert outcome.status == expected or (killed and outcome.status < 0), told
    if block.language != "sh":
        assert outcome.errors == "", told
    strict = block.language != "sh" and "pytest" not in block.notes
    if strict or block.prints is not None:
        shown = block.prints or ""
        assert fits(shown, outcome.output), f"{block} prints\n{outcome.output}\nand not\n{shown}"
    if block.language == "sh":
        for command in block.commands:
            check_command(str(block), command)


def fits(shown: str, printed: str) -> bool:
    """Whether what is printed is what a page shows; see above for `…`."""
    pattern = "".join(
        "(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
        for line in _lines(shown)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed))) is not None


def _lines(text: str) -> list[str]:
    """The lines, but for what is different each time."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    for pattern, instead in _VARYING:
        lines = [pattern.sub(instead, line) for line in lines]
    return lines


def check_command(where: str, words: list[str]) -> None:
    """A command that is not run names what there is."""
    words = words[sum("=" in word for word in words[:1]) :]  # NAME=value before a command
    assert words[0] in COMMANDS, f"{where}: nobody knows the command {words[0]!r}"
    if words[0] == "pip":
        project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
        for extras in re.findall(r"awaken\[([^]]*)\]", " ".join(words)):
            unknown = set(extras.split(",")) - project["optional-dependencies"].keys()
            assert not unknown, f"{where}: there is no extra {unknown}"
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (HOME / "Makefile").read_text(), re.MULTILINE)
        assert words[1] in targets, f"{where}: there is no target {words[1]!r}"
