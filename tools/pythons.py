"""Runs the tests on each Python the package is for: `python tools/pythons.py [PYTEST ARGUMENTS]`.

The versions are those of the classifiers in `pyproject.toml`. Each one that is on this machine gets
an environment of its own, `.venv-3.12` for example, from the same locked files as `.venv`. Versions
that are not on this machine are named at the end. The exit code is 1 if tests fail on a version.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

HOME = Path(__file__).parents[1]
Command = list[str | Path]


def main(arguments: list[str]) -> int:
    outcomes: dict[str, str] = {}
    for version in supported(HOME):
        python = find_python(version, os.environ)
        if python is None:
            outcomes[version] = "not on this machine"
            continue
        print(f"-- Python {version}: {python}", flush=True)
        tests: Command = [environment(version, python) / "python", "-m", "pytest", *arguments]
        failed = subprocess.run(tests, cwd=HOME, check=False).returncode
        outcomes[version] = "failed" if failed else "passed"
    for version, outcome in outcomes.items():
        print(f"Python {version}: {outcome}")
    return int("failed" in outcomes.values())


def supported(home: Path) -> list[str]:
    """The versions of Python that a project names in its classifiers."""
    project = tomllib.loads((home / "pyproject.toml").read_text())["project"]
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    return [found[1] for each in project["classifiers"] if (found := pattern.fullmatch(each))]


def find_python(version: str, environ: Mapping[str, str]) -> Path | None:
    """An interpreter of that version that really runs; `None` if there is none."""
    for python in candidates(version, environ):
        asked: Command = [python, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
        try:
            done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
        except OSError:
            continue
        # A shim of pyenv exists for versions that are not switched on, and fails.
        if done.returncode == 0 and done.stdout.strip() == version:
            return python
    return None


def candidates(version: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Where an interpreter may be: on the path, or among the versions that pyenv has built."""
    name = f"python{version}"
    folders = [Path(each) for each in environ.get("PATH", "").split(os.pathsep) if each]
    pyenv = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/")) / ".pyenv")
    folders += sorted(pyenv.glob(f"versions/{version}.*/bin"))
    yield from (folder / name for folder in folders if (folder / name).is_file())


def environment(version: str, python: Path) -> Path:
    """The programs of an environment with everything the tests need, made if need be."""
    folder = HOME / f".venv-{version}"
    ready = folder / ".dev"
    locks = [HOME / "requirements.lock", HOME / "constraints.txt"]
    newest = max(each.stat().st_mtime for each in (*locks, HOME / "pyproject.toml"))
    if ready.exists() and ready.stat().st_mtime > newest:
        return folder / "bin"
    pip: Command = [folder / "bin" / "pip", "install", "--quiet"]
    commands: list[Command] = [
        [python, "-m", "venv", "--clear", folder],
        *([*pip, "--require-hashes", "--no-deps", "--requirement", lock] for lock in locks),
        [*pip, "--no-deps", "--no-build-isolation", "--editable", HOME],
    ]
    for command in commands:
        subprocess.run(command, check=True)
    ready.touch()
    return folder / "bin"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
