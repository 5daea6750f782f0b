"""The tests are run on Pythons that really run, and the others are named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from page_blocks import HOME
from pythons import find_python, main, supported

THIS = "{}.{}".format(*sys.version_info)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_versions_are_those_of_the_classifiers() -> None:
    assert supported(HOME) == ["3.11", "3.12", "3.13", "3.14"]


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


def test_a_python_that_the_user_names_comes_before_those_that_are_found(tmp_path: Path) -> None:
    program(tmp_path / f"python{THIS}", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    named = program(tmp_path / "own" / "python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    broken = tmp_path / "none"

    environ = {"PATH": str(tmp_path), "PYTHONS": f"{broken} {named}"}
    assert find_python(THIS, environ) == named


def test_a_named_python_that_does_not_run_or_is_of_another_version_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONS", str(tmp_path / "none"))

    assert main([]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'none'} of PYTHONS is none of Python")


class Checkout:
    """A folder with what `make` needs to make environments, and no environment yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("Makefile", "pyproject.toml", "requirements.lock", "constraints.txt"):
            (folder / name).write_text((HOME / name).read_text())

    def make(self, *words: str) -> str:
        """What `make` prints. It gets no variables of a `make` that runs these tests."""
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        command = ["make", "--no-print-directory", *words]
        return subprocess.run(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_make_gives_a_python_without_pip_an_environment_of_its_own(checkout: Checkout) -> None:
    """The pip of another Python installs into it."""
    python = program(
        checkout.folder / "python",
        f"""#!/bin/sh
case "$*" in *"import ensurepip"*) exit 1; esac
exec "{sys.executable}" "$@"
""",
    )
    own = f".venv-{THIS}"

    checkout.make(f"{own}/bin/python", f"PYTHON={python}")

    assert not (checkout.folder / ".venv").exists()
    assert not (checkout.folder / own / "bin" / "pip").exists()
    told = checkout.make("--dry-run", f"{own}/.installed", f"PYTHON={python}")
    assert f"python3 -m pip --python {own}/bin/python install" in told
    assert f"making {own}" not in told


def test_make_does_not_run_one_python_in_the_environment_of_another(checkout: Checkout) -> None:
    """Two builds of one version have one name for their environments: it is made again."""
    own = checkout.folder / f".venv-{THIS}" / "bin" / "python"
    its, other = (checkout.folder / name / "python3" for name in ("its", "other"))
    for each in (its, other):
        program(each, f'#!/bin/sh\necho "{THIS} {each}"\n')
    own.parent.mkdir(parents=True)
    own.symlink_to(its)

    assert f"making .venv-{THIS} " in checkout.make("--dry-run", "lint", f"PYTHON={other}")
    assert f"making .venv-{THIS} " not in checkout.make("--dry-run", "lint", f"PYTHON={its}")
