"""A hand-over outlives the process it was made in (03/DB-7 persisted active agent)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from handoff_kit import texts
from handoff_life import THREAD, agents

import forked
from awaken import Runtime
from awaken.core.lifecycle import RunStatus
from awaken.testing.chaos import EffectLog, NoteKind

LIFE = Path(__file__).with_name("handoff_life.py")
UNDISTURBED = [
    "Hello.",
    "Good day.",
    "My money, please.",
    "One moment.",
    "The conversation is handed to billing.",
    "Billing, for the desk. I see 3.",
]


def lives(home: Path, *kill_at: int) -> int:
    """Run a process; how it ended."""
    done = forked.play(LIFE, home, *kill_at)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def questions(home: Path, model: str) -> int:
    notes = EffectLog(home / "effect_log").notes()
    return sum(note.kind is NoteKind.MODEL and note.name == model for note in notes)


async def speaks_on(home: Path) -> None:
    """The conversation in a process that was not there: billing has it, as it was given."""
    address = f"sqlite:///{home / 'awaken.db'}"
    async with Runtime(agents(EffectLog(home / "later")), store=address) as runtime:
        assert texts(await runtime.messages(THREAD)) == UNDISTURBED
        latest = await runtime.store.latest_run(THREAD)
        assert latest is not None
        assert (latest.agent_id, latest.status) == ("billing", RunStatus.DONE)
        assert latest.agent_changes == ()
        again = await runtime.run(input="When?", thread=THREAD)
        assert again.response == "Billing, for the desk. I see 5."
        back = await runtime.run(input="Take me back.", thread=THREAD)
        assert back.response == "Good day."
        record = await runtime.find_run(back.run_id)
        assert record is not None
        assert record.agent_id == "desk"


def test_the_next_process_speaks_as_the_second_agent(tmp_path: Path) -> None:
    """03/DB-7: who has the conversation, what is laid over him, what he sees, and the way back."""
    assert lives(tmp_path) == 0

    asyncio.run(speaks_on(tmp_path))


def points(home: Path) -> list[str]:
    """Where a process may be killed, in the order it came by."""
    notes = EffectLog(home / "effect_log").notes()
    return [note.name for note in notes if note.kind is NoteKind.POINT]


def test_a_process_killed_at_any_point_of_a_hand_over(tmp_path: Path) -> None:
    """03/DB-7, design §4: whoever recovers goes on from the last commit; nothing is said twice."""
    assert lives(tmp_path) == 0
    passed = points(tmp_path)
    second_run = len(passed) - passed[::-1].index("before a claim")
    assert len(passed) - second_run >= 8, "claim, start, answer, outcome, end: before and after"

    for point in range(second_run, len(passed) + 1):
        home = tmp_path / str(point)
        home.mkdir()
        assert lives(home, point) == -signal.SIGKILL
        assert lives(home) == 0

        asked = questions(home, "desk"), questions(home, "billing")
        assert asked in [(2, 1), (3, 1), (2, 2)], "once more only if the answer was lost"
        assert not any(n.kind is NoteKind.FAULT for n in EffectLog(home / "effect_log").notes())
        asyncio.run(speaks_on(home))
