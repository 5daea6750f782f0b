"""Lines from standard input, whatever the event loop and the system can do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

from awaken.cli.stdin_lines import InputInterrupted, StdinLines

pytestmark = pytest.mark.anyio


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture(params=["watched", "aside"])
async def lines(
    request: pytest.FixtureRequest, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> StdinLines:
    """By the loop, or by a thread where the loop cannot watch a file, as on Windows."""
    if request.param == "aside":

        def cannot(*_: object) -> NoReturn:
            raise NotImplementedError

        monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", cannot)
    return StdinLines(pipe[0])


async def test_lines_are_read_one_by_one(lines: StdinLines, pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"one\ntw")
    assert await lines.read_line() == "one"
    os.write(pipe[1], b"o\r\n")
    assert await lines.read_line() == "two"


async def test_a_line_that_is_given_up_is_there_for_the_next_who_asks(
    lines: StdinLines, pipe: tuple[int, int]
) -> None:
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        asking = group.create_task(_read_until_interrupted(lines))
        while not asking.done():
            lines.interrupt()
            await asyncio.sleep(0)
        os.write(pipe[1], b"late\n")
        assert await lines.read_line() == "late"


async def _read_until_interrupted(lines: StdinLines) -> None:
    with pytest.raises(InputInterrupted):
        await lines.read_line()


def test_the_command_line_needs_no_module_that_only_unix_has() -> None:
    program = "import sys; sys.modules['termios'] = None; import awaken.cli.stdin_lines"
    subprocess.run([sys.executable, "-c", program], check=True)
