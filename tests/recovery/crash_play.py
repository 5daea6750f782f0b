"""Playing a scenario to its end, with kills on the way, and what must hold of it then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from crash_life import Role, Stage, start, wait
from crash_scenarios import DELEGATE, READS, Answered, Scenario

from awaken.codec import dumps, dumps_text
from awaken.contract.commits import CallPhase
from awaken.domain.lifecycle import RunStatus
from awaken.domain.ticket import TicketStatus
from awaken.testing.chaos import Damage, NoteKind, Picture, damage_between, differences

MOST_LIVES = 14
WATCHED = 10
"""Of so many seeds one is watched from another process."""


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario played to its end; `pictures` were taken after each kill."""

    final: Picture
    pictures: tuple[Picture, ...]
    points: tuple[str, ...]
    damage: Damage
    seconds: float


def play(stage: Stage, *, kill_after: float | None = None) -> Play:
    """Start processes until the conversation is over.

    Args:
        kill_after: seconds after which the first process is killed from outside.
    """
    began = time.monotonic()
    pictures: list[Picture] = []
    troubles: list[str] = []
    watcher = start(stage, Role.WATCH) if stage.seed % WATCHED == 0 else None
    now = Picture()
    for _ in range(MOST_LIVES):
        role = _next_role(now, stage.scenario)
        if role is None:
            break
        code = _live_once(stage, role, kill_after)
        kill_after = None
        now = stage.look()
        if code == -signal.SIGKILL:
            pictures.append(now)
        elif code != 0:
            troubles.append(f"a process ended with {code}:\n{_tail(stage.errors)}")
            break
    if watcher is not None:
        troubles.extend(_unseen(stage, watcher, now))
    if stage.scenario.delegate_plan:
        troubles.extend(f"run {run_id} has not ended" for run_id in stage.open_runs())
    notes = stage.witness.notes()
    damage = damage_between(pictures, now, notes, stage.scenario.once)
    return Play(
        final=now,
        pictures=tuple(pictures),
        points=tuple(note.name for note in notes if note.kind is NoteKind.POINT),
        damage=msgspec.structs.replace(damage, left_open=(*troubles, *damage.left_open)),
        seconds=time.monotonic() - began,
    )


def _unseen(stage: Stage, watcher: int, final: Picture) -> Iterator[str]:
    """What somebody who watched from another process, over all the kills, saw otherwise."""
    if _next_role(final, stage.scenario) is not None:
        os.kill(watcher, signal.SIGKILL)  # what it waits for will not come
    code = wait(watcher)
    if code != 0:
        yield f"the watcher ended with {code}:\n{_tail(stage.errors)}"
    elif stage.seen.read_bytes().splitlines() != [dumps(event) for event in final.events]:
        yield "the watcher saw other events than there are"


def _next_role(now: Picture, scenario: Scenario) -> Role | None:
    """What is to be done next; nothing if all is."""
    done = [run for run in now.runs if run.status is RunStatus.DONE]
    if len(done) == len(now.runs) == len(scenario.prompts):
        return None
    asked = any(ticket.status is TicketStatus.OPEN for ticket in now.tickets)
    return Role.ANSWER if asked and scenario.answered is not Answered.BY_ITSELF else Role.WORK


def _live_once(stage: Stage, role: Role, kill_after: float | None) -> int:
    pid = start(stage, role)
    if role is Role.ANSWER or stage.scenario.answered is not Answered.LIVE:
        return wait(pid, kill_after)
    other = start(stage, Role.ANSWER)
    try:
        return wait(pid, kill_after)
    finally:
        os.kill(other, signal.SIGKILL)  # what it has not answered, the next one will
        wait(other)


def _tail(path: Path, lines: int = 40) -> str:
    text = path.read_text() if path.exists() else ""
    return "\n".join(text.splitlines()[-lines:])


# -- what must hold ---------------------------------------------------------------------------


def check(stage: Stage, undisturbed: Play, played: Play) -> Damage:
    """The damage of a play, with everything in which it differs from the undisturbed one."""
    open_calls = {key for picture in played.pictures for key in picture.open_calls()}
    return msgspec.structs.replace(
        played.damage,
        doubled=(*played.damage.doubled, *_other_keys(stage)),
        lost=(
            *played.damage.lost,
            *differences(undisturbed.final, played.final, open_calls),
            *_unfounded(stage, played.final, open_calls),
            *stage.scenario.holds(played.final),
        ),
    )


def _other_keys(stage: Stage) -> Iterator[str]:
    """What was done under two keys: whoever told repeats by the key would not know this one."""
    keys: dict[tuple[str, str], set[str]] = {}
    for note in stage.witness.notes():
        if note.kind is NoteKind.EFFECT and note.name not in READS:
            keys.setdefault((note.name, dumps_text(note.detail)), set()).add(note.key)
    for (name, what), found in keys.items():
        if len(found) > 1:
            yield f"{name} got {len(found)} keys for one thing: {what}"


def _unfounded(stage: Stage, final: Picture, open_calls: set[str]) -> Iterator[str]:
    """Outcomes that are not what happened."""
    effects = {note.key for note in stage.witness.notes() if note.kind is NoteKind.EFFECT}
    for call in final.calls:
        name = call.tool_name
        if call.phase is CallPhase.UNKNOWN:
            if call.key not in open_calls:
                yield f"{name} was reported as unknown and was not open at any kill"
            if name not in stage.scenario.once and name != DELEGATE:
                yield f"{name} may be run again and was reported as unknown"
        if call.phase is CallPhase.SUCCEEDED and name != DELEGATE and call.key not in effects:
            yield f"{name} has succeeded and never took effect"
