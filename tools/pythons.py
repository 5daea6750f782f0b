"""Runs the tests on each Python the package is for: `python tools/pythons.py [PYTEST ARGUMENTS]`.

The versions are those of the classifiers in `pyproject.toml`. An interpreter of each is looked for
among those that the environment variable `PYTHONS` names (paths, with spaces between them), on the
path, and among those that pyenv has built; `make test PYTHON=…` runs the tests on it. Versions that
are not on this machine are named at the end. The exit code is 1 if tests fail on a version.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

HOME = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    versions = supported(HOME)
    for python in named_pythons(os.environ):
        if version_of(python) not in versions:
            print(f"{python} of PYTHONS is none of Python {', '.join(versions)}", file=sys.stderr)
            return 1
    outcomes: dict[str, str] = {}
    for version in versions:
        found = find_python(version, os.environ)
        if found is None:
            outcomes[version] = "not on this machine"
            continue
        print(f"-- Python {version}: {found}", flush=True)
        outcomes[version] = "failed" if run_tests(found, arguments) else "passed"
    for version, outcome in outcomes.items():
        print(f"Python {version}: {outcome}")
    return int("failed" in outcomes.values())


def run_tests(python: Path, arguments: list[str]) -> int:
    """Run `make test` on an interpreter; returns its exit code."""
    tests = shlex.join(arguments).replace("$", "$$")
    command = ["make", "--no-print-directory", "test", f"PYTHON={python}", f"TESTS={tests}"]
    return subprocess.run(command, cwd=HOME, check=False).returncode


def supported(home: Path) -> list[str]:
    """The versions of Python that a project names in its classifiers."""
    project = tomllib.loads((home / "pyproject.toml").read_text())["project"]
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    return [found[1] for each in project["classifiers"] if (found := pattern.fullmatch(each))]


def find_python(version: str, environ: Mapping[str, str]) -> Path | None:
    """An interpreter of that version that really runs; `None` if there is none."""
    candidates = (*named_pythons(environ), *installed_pythons(version, environ))
    return next((python for python in candidates if version_of(python) == version), None)


def version_of(python: Path) -> str | None:
    """The version of an interpreter, such as `3.12`; `None` if it does not run: a shim of pyenv
    exists for versions that are not switched on, and fails."""
    asked: list[str | Path] = [python, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def named_pythons(environ: Mapping[str, str]) -> list[Path]:
    """The interpreters that the user names."""
    return [Path(each) for each in environ.get("PYTHONS", "").split()]


def installed_pythons(version: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Where an interpreter may be: on the path, or among the versions that pyenv has built."""
    name = f"python{version}"
    folders = [Path(each) for each in environ.get("PATH", "").split(os.pathsep) if each]
    pyenv = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/")) / ".pyenv")
    folders += sorted(pyenv.glob(f"versions/{version}.*/bin"))
    yield from (folder / name for folder in folders if (folder / name).is_file())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
