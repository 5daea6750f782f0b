"""Runs the blocks of one page: `python page_runner.py FOLDER`, with the blocks on stdin as JSON.

Everything is imported once; each block then has a process of its own, forked from this one, which
ends as any other would. See `page_blocks`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import awaken.front.models
import awaken.stores.sqlite
import awaken.testing  # noqa: F401  # imported once, for all blocks
from awaken.cli.app import cli
from awaken.cli.app import main as awaken_main
from awaken.contract.llm import LlmExecutor
from awaken.front import loading

TESTS = str(Path(__file__).parent)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    blocks = json.load(sys.stdin)
    os.chdir(folder)
    sys.path[0] = str(folder)
    sys.path.append(TESTS)
    outcomes = []
    for number, block in enumerate(blocks):
        file = folder / (block["name"] or f"block_{number}.py")
        if block["language"] == "python":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block["code"])
        outcomes.append(outcome_of(block, file))
    json.dump(outcomes, sys.stdout)


def outcome_of(block: dict[str, Any], file: Path) -> dict[str, Any]:
    """Run a block: what it printed, and how it ended."""
    if block["language"] == "python":
        test = "pytest" in block["notes"]
        return run(block["notes"], ["pytest" if test else "python", str(file)])
    printed, status = "", 0
    for words in block["commands"]:
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            os.environ[name] = value
        elif "shown" in block["notes"] or words[0] not in ("awaken", "python"):
            printed += parse(words)
        else:
            done = run(block["notes"], words)
            printed, status = printed + done["output"] + done["errors"], done["status"]
    return {"output": printed, "errors": "", "status": status}


def parse(words: list[str]) -> str:
    """Have a command of ours read its options, and do nothing."""
    if words[0] == "awaken" and len(words) > 1 and not words[1].startswith("-"):
        command = cli.get_command(cli.make_context("awaken", ["--help"], resilient_parsing=True), words[1])
        assert command is not None, f"there is no command {words[1]!r}"
        command.make_context(words[1], words[2:])
    return ""


def run(notes: dict[str, str], words: list[str]) -> dict[str, Any]:
    """Run a program in a process of its own; `words` are those of a shell."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            for number, file in ((1, out), (2, err)):
                os.dup2(file.fileno(), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            start(notes, words)
            # As any program: what is left open is complained about.
            sys.exit()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    output, errors = texts
    return {"output": output + ("Killed\n" if status == -9 else ""), "errors": errors, "status": status}


def start(notes: dict[str, str], words: list[str]) -> None:
    sys.argv = words[1:]
    if notes.get("models") == "demo":
        stand_in()
    if "setup" in notes:
        exec(compile(notes["setup"], "<setup>", "exec"), {"__name__": "setup"})
    if words[0] == "awaken":
        sys.argv = words
        sys.exit(awaken_main())
    elif words[0] == "pytest":
        import pytest  # noqa: PLC0415  # only where it is needed

        sys.exit(pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", words[1]]))
    else:
        program = types.ModuleType("__main__")
        program.__file__ = words[1]
        sys.modules["__main__"] = program
        exec(compile(Path(words[1]).read_bytes(), words[1], "exec"), program.__dict__)


def stand_in() -> None:
    """Have the demo model answer for whatever provider is named."""

    def open_model(name: str) -> LlmExecutor:
        provider, _, model = name.partition(":")
        with contextlib.suppress(KeyError):
            known = loading._PROVIDERS[provider] if model else loading._COMPLETE[provider]
            assert hasattr(loading.import_module(known[0]), known[1])
            name = "demo"
        return loading.open_model(name)

    awaken.front.models.open_model = open_model


if __name__ == "__main__":
    main()
