"""Streams cut at every event, in every dialect, through its SDK: nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from cut_dialects import BROKEN
from cut_play import cuts_in, opened
from cut_stage import BOTH, CHUNK, END, Cut, Recordings, fixtures, has_spoken, parts_asked
from mock_server import MockServer

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def recordings() -> Iterator[Recordings]:
    with MockServer(fixtures(), chunk_size=CHUNK) as mock:
        yield Recordings(mock)


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("unframed", [False, True], ids=["framed", "unframed"])
async def test_a_cut_anywhere_in_an_answer_with_calls_changes_nothing(
    recordings: Recordings, tmp_path: Path, name: str, unframed: bool
) -> None:
    """02/E3: what was said is not said again, a call that was whole is not asked for again."""
    events = await recordings.events(BROKEN[name], BOTH)
    async with opened(recordings, tmp_path, name) as play:
        assert await play.run({}) is None
        for after, torn in product(range(len(events) + 1), (False, True)):
            cut = Cut(after=after, torn=torn, unframed=unframed)
            assert await play.run({BOTH: [cut]}) is None, cut
            assert [part for _, part, _ in play.stage.asked] == parts_asked(events[:after]), cut
            assert not (play.screen.resets and has_spoken(events[:after])), cut


@pytest.mark.parametrize("name", BROKEN)
async def test_a_cut_anywhere_in_the_last_answer_changes_nothing(
    recordings: Recordings, tmp_path: Path, name: str
) -> None:
    events = await recordings.events(BROKEN[name], END)
    async with opened(recordings, tmp_path, name) as play:
        for after, how in product(range(len(events) + 1), ("closed", "unframed", "reset")):
            cut = Cut(after=after, unframed=how == "unframed", reset=how == "reset")
            assert await play.run({END: [cut]}) is None, cut
            assert not (play.screen.resets and has_spoken(events[:after])), cut


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_gone_on_with_may_be_cut_again(
    recordings: Recordings, tmp_path: Path, name: str
) -> None:
    events = await recordings.events(BROKEN[name], BOTH)
    async with opened(recordings, tmp_path, name) as play:
        for after in range(len(events) + 1):
            for again in (after // 2, len(events) - after):
                cuts = [Cut(after=after), Cut(after=again)]
                assert await play.run({BOTH: cuts, "call_b": cuts[1:], END: cuts[1:]}) is None, cuts


@pytest.mark.parametrize("name", BROKEN)
async def test_a_cut_at_any_byte_changes_nothing(
    recordings: Recordings, tmp_path: Path, name: str
) -> None:
    """Some bytes of each answer; `cut_bytes.py` takes all of them."""
    async with opened(recordings, tmp_path, name) as play:
        for part in (BOTH, END):
            for cut in cuts_in(await recordings.events(BROKEN[name], part), every=701):
                assert await play.run({part: [cut]}) is None, cut


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("chat", "anthropic"),
        ("anthropic", "responses"),
        ("gemini", "chat"),
        ("responses", "gemini"),
    ],
)
async def test_a_model_of_another_provider_goes_on_where_one_broke_off(
    recordings: Recordings, tmp_path: Path, first: str, second: str
) -> None:
    """02/E7: the first one does not answer again after the cut."""
    events = await recordings.events(BROKEN[first], BOTH)
    async with opened(recordings, tmp_path, first, second, deserts=True) as play:
        for after in range(1, len(events) + 1):
            cut = Cut(after=after)
            assert await play.run({BOTH: [cut]}) is None, cut
            assert [part for _, part, _ in play.stage.asked] == parts_asked(events[:after]), cut
            assert {name for name, _, _ in play.stage.asked[1:]} == {second}, cut
