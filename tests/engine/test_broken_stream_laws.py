"""Streams that break and processes that die while a model answers, with a window that is cut and
summaries that are swapped in: no call is ever separated from its result, doubled or dropped.

`AWAKEN_SEQUENCES=10000 pytest tests/engine/test_broken_stream_laws.py` tries that many.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from broken_talk import PIECES, Answer, Break, LastingStore, Play, Talk
from hypothesis import example, given, settings
from hypothesis import strategies as st

from awaken.codec import dumps_text
from awaken.core.inference import CompactionMode

SEQUENCES = int(os.environ.get("AWAKEN_SEQUENCES", "100"))
PROGRAM = Path(__file__).with_name("broken_talk.py")

HOW = st.sampled_from(["cut", "die"])
BREAKS = st.builds(Break, how=HOW, after=st.integers(0, PIECES + 10), late=st.booleans())
# Two breaks at most: a third attempt is the last one.
TWO = st.lists(BREAKS, max_size=2).map(tuple)
ANSWERS = st.builds(Answer, calls=st.integers(1, 3), breaks=TWO, speaks=st.booleans())
LAST = st.builds(Answer, breaks=TWO)
TURN = st.tuples(st.lists(ANSWERS, max_size=3), LAST).map(lambda turn: (*turn[0], turn[1]))
TURNS = st.lists(TURN, min_size=1, max_size=5).map(tuple)


def begun_twice(speaks: bool) -> tuple[tuple[Answer, ...], ...]:
    """A call is cut when half of it is kept, written anew, and whole when the process dies."""
    call = PIECES * speaks
    breaks = (Break("cut", call + 2), Break("die", 3))
    return ((Answer(calls=1, breaks=breaks, speaks=speaks), Answer()),)


@pytest.mark.timeout(600 + SEQUENCES // 5)
@given(TURNS, st.sampled_from(CompactionMode))
@example(begun_twice(True), CompactionMode.KEEP_RECENT_RAW_SUFFIX)
@example(begun_twice(False), CompactionMode.KEEP_RECENT_RAW_SUFFIX)
@settings(max_examples=SEQUENCES, deadline=None)
def test_whatever_breaks_calls_and_results_stay_together(
    turns: tuple[tuple[Answer, ...], ...], mode: CompactionMode
) -> None:
    """02/E3, E5, X2, X5: the text is the uncut one's, what was heard whole is done once."""

    async def act() -> None:
        store = LastingStore()
        talk = Talk(Play(turns=turns, mode=mode), store, store.forsake)
        await talk.act()
        assert await talk.problem() is None
        assert sorted(talk.ran) == sorted(talk.play.heard)

    logging.disable()  # what breaks here is meant to
    try:
        asyncio.run(act())
    finally:
        logging.disable(logging.NOTSET)


def test_the_conversations_of_these_tests_are_summarised() -> None:
    """Or they would not be about summaries."""

    async def act() -> int:
        store = LastingStore()
        talk = Talk(Play(turns=((Answer(calls=2), Answer()),) * 4), store, store.forsake)
        await talk.act()
        return await talk.summaries()

    assert asyncio.run(act()) > 0


PLAY = Play(
    turns=(
        (Answer(calls=2, breaks=(Break("die", 2),)), Answer(breaks=(Break("die", 3),))),
        (
            Answer(calls=2, breaks=(Break("die", PIECES + 4),)),
            Answer(calls=3, breaks=(Break("cut", PIECES), Break("die", 5))),
            Answer(),
        ),
        (Answer(calls=1, breaks=(Break("cut", 3), Break("die", 2, late=False))), Answer()),
    )
)


def test_real_processes_that_are_killed_leave_no_torn_call(tmp_path: Path) -> None:
    """02/E5: with SIGKILL, one process after the other, until the conversation is at its end."""
    command = [sys.executable, str(PROGRAM), str(tmp_path), dumps_text(PLAY)]
    lives = 0
    while True:
        life = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
        if life.returncode != -signal.SIGKILL:
            break
        lives += 1
    assert (life.returncode, life.stdout.strip()) == (0, "done"), life.stderr
    assert lives == sum(b.how == "die" for answer in PLAY.answers for b in answer.breaks)
