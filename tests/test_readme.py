"""Every Python example in the README runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
EXPECTED = [
    ["Paris: 21°C, sunny", "Rome: 21°C, sunny"],
    ["refund {'order': 'A7', 'amount': 12.5}", "Done."],
    ["3 ToolCallReady", "10 RunFinish", "\n2\n"],
    ["Stopped(value=StoppedReason(code='word_budget', detail=None))"],
]


def test_every_example_has_an_expectation() -> None:
    assert len(BLOCKS) == len(EXPECTED)


@pytest.mark.parametrize("index", range(len(EXPECTED)))
def test_an_example_of_the_readme_prints_what_it_should(index: int) -> None:
    program = subprocess.run(
        [sys.executable, "-c", BLOCKS[index]],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    for line in EXPECTED[index]:
        assert line in program.stdout


def test_the_two_commands_exist() -> None:
    makefile = (README.parent / "Makefile").read_text()
    for target in ("run", "test"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
        assert f"make {target}" in README.read_text()
