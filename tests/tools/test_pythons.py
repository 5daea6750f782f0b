"""The tests are run on Pythons that really run, and the others are named."""

import sys
from pathlib import Path

from page_blocks import HOME
from pythons import find_python, supported

THIS = "{}.{}".format(*sys.version_info)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_versions_are_those_of_the_classifiers() -> None:
    assert supported(HOME)[:2] == ["3.11", "3.12"]


def test_a_python_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    """A shim of pyenv exists whether or not its version is switched on."""
    program(tmp_path / "shims" / f"python{THIS}", "#!/bin/sh\nexit 127\n")
    works = program(
        tmp_path / "bin" / f"python{THIS}", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    )

    path = f"{tmp_path / 'shims'}:{tmp_path / 'bin'}"
    assert find_python(THIS, {"PATH": path}) == works


def test_a_python_that_pyenv_has_built_is_found(tmp_path: Path) -> None:
    built = tmp_path / "versions" / f"{THIS}.99" / "bin" / f"python{THIS}"
    program(built, f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')

    assert find_python(THIS, {"PYENV_ROOT": str(tmp_path)}) == built


def test_a_python_of_another_version_is_not_taken(tmp_path: Path) -> None:
    program(tmp_path / "python3.99", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')

    assert find_python("3.99", {"PATH": str(tmp_path), "HOME": str(tmp_path)}) is None
