"""Clients that are cut off, short: `make proof` kills and cuts behind every frame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cut_off import cut_behind, kill_behind
from stream_kit import Server, serving


@pytest.mark.parametrize("frame", [2, 6, 19])
def test_a_client_misses_nothing_when_its_server_is_killed_behind_a_frame(frame: int) -> None:
    """06/SV-21 for `/v1`: another process goes on with the run, and the client with that."""
    kill_behind(frame)


class Two:
    """Two servers on one file, which write their answers slowly."""

    def __init__(self, file: Path, one: Server, other: Server) -> None:
        self.file, self.one, self.other = file, one, other


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    file = tmp_path_factory.mktemp("two") / "f.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALKER_PACE", "0.01")
        with serving(file) as one, serving(file) as other:
            yield Two(file, one, other)


@pytest.mark.parametrize("frame", [1, 3, 5, 9, 20, 30])
def test_a_client_that_is_cut_off_goes_on_with_another_server(two: Two, frame: int) -> None:
    """06/SV-22"""
    cut_behind(frame, two.file, two.one, two.other)
