"""Playing a scenario to its end, with kills on the way, and what must hold of it then."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from crash_blobs import blob_faults
from crash_life import HUNG_AFTER, Role, Stage, beside, prompts, start, wait
from crash_scenarios import Answered, Cancelled, Scenario
from crash_world import KILLS, READS, SHOP

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

from follow_kit import Reader

from awaken.codec import dumps_text, loads
from awaken.core.event import RunEvent, StepStart
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus, TerminationReason
from awaken.core.message import Role as MessageRole
from awaken.core.run import RunRecord
from awaken.core.store.commits import CallPhase
from awaken.core.thread_ids import task_key
from awaken.testing.chaos import (
    Damage,
    NoteKind,
    ThreadDump,
    answerable,
    damage_between,
    differences,
    task_of,
)

MOST_LIVES = 20
WATCHED = 10
"""Of so many seeds one is followed from another process."""


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario played to its end; `thread_dumps` were taken after each kill."""

    final: ThreadDump
    thread_dumps: tuple[ThreadDump, ...]
    points: tuple[str, ...]
    damage: Damage
    seconds: float


def play(stage: Stage, *, kill_after: float | None = None) -> Play:
    """Start processes until the conversation is over.

    Args:
        kill_after: seconds after which the first process is killed from outside.
    """
    began = time.monotonic()
    thread_dumps: list[ThreadDump] = []
    troubles: list[str] = []
    ownerless: dict[str, None] = {}
    is_watched = stage.scenario.followed or stage.seed % WATCHED == 0
    watcher = start(stage, Role.WATCH) if is_watched else None
    now = ThreadDump()
    for lives in range(MOST_LIVES):
        role = _next_role(now, stage.scenario, lives)
        if role is None:
            break
        code = _live_once(stage, role, kill_after)
        kill_after = None
        stage.site.bury()
        now = stage.look()
        ownerless.update(dict.fromkeys(_ownerless(stage, now)))
        if code == -signal.SIGKILL:
            thread_dumps.append(now)
        elif code != 0:
            troubles.append(f"a process ended with {code}:\n{_tail(stage.errors)}")
            break
    if watcher is not None:
        troubles.extend(_unseen(stage, watcher, now))
    notes = stage.effect_log.notes()
    damage = damage_between(thread_dumps, now, notes, stage.scenario.once)
    return Play(
        final=now,
        thread_dumps=tuple(thread_dumps),
        points=tuple(note.name for note in notes if note.kind is NoteKind.POINT),
        damage=msgspec.structs.replace(
            damage,
            doubled=(*damage.doubled, *_remote_twice(stage)),
            left_open=(*troubles, *damage.left_open),
            ownerless=tuple(ownerless),
        ),
        seconds=time.monotonic() - began,
    )


def _ownerless(stage: Stage, now: ThreadDump) -> Iterator[str]:
    """Tasks on the service that go on, or wait, and that no open run knows of."""
    runs = {run.run_id: run for thread in now.threads() for run in thread.runs}
    for task in stage.service.tasks():
        run = runs.get(task.run_id)
        if run is None:
            yield f"remote {task.id} is of run {task.run_id}, which is not on record"
        elif task.is_open and run.status is RunStatus.DONE:
            yield f"remote {task.id} is {task.state}, and its run {task.run_id} has ended"


def _remote_twice(stage: Stage) -> Iterator[str]:
    tasks = stage.service.tasks()
    for what, found in (
        ("message", Counter(message for task in tasks for message in task.messages)),
        ("task", Counter(task.text for task in tasks)),
    ):
        for name, times in found.items():
            if times > 1:
                yield f"the service got the {what} {name!r} {times} times"


def _unseen(stage: Stage, watcher: int, final: ThreadDump) -> Iterator[str]:
    """What a process that followed the thread, over all the kills, heard otherwise.

    It must have got every durable event once and in order, and each answer as the log has it.
    """
    reader = _wait_for_reader(stage, watcher, len(final.events))
    if isinstance(reader, str):
        yield reader
        return
    if [event.event for event in reader.durable.values()] != [e.event for e in final.events]:
        yield f"the watcher has {len(reader.durable)} events, of {len(final.events)}, or others"
    begun = {e.event.message_id for e in final.events if isinstance(e.event, StepStart)}
    for message in final.messages:
        if message.role is MessageRole.ASSISTANT and message.id in begun:
            text = reader.texts.get(message.id or "")
            if text != message.text():
                yield f"the watcher has {text!r} of the answer {message.text()!r}"


def _wait_for_reader(stage: Stage, watcher: int, events: int) -> Reader | str:
    """The reader of what the watcher wrote, once it has so many events; or what is wrong."""
    deadline = time.monotonic() + HUNG_AFTER
    while True:
        ended, status = os.waitpid(watcher, os.WNOHANG)
        if ended:
            return f"the watcher ended with {status}:\n{_tail(stage.errors)}"
        reader = Reader()
        written = stage.seen.read_bytes() if stage.seen.exists() else b""
        try:
            for line in written[: written.rfind(b"\n") + 1].splitlines():
                reader.read(loads(line, RunEvent))
        except AssertionError as error:
            break_off = f"the watcher was told wrongly: {error}"
        else:
            break_off = ""
        if break_off or reader.cursor >= events or time.monotonic() > deadline:
            os.kill(watcher, signal.SIGKILL)
            wait(watcher)
            return break_off or reader
        time.sleep(0.005)


def _next_role(now: ThreadDump, scenario: Scenario, lives: int) -> Role | None:
    """What is to be done next; nothing if all is."""
    left = _open_runs(now)
    if not left and _is_said(now, scenario):
        return None
    if scenario.cancelled is Cancelled.LATER and lives and any(run in now.runs for run in left):
        return Role.CANCEL
    tickets = [ticket for thread in now.threads() for ticket in thread.tickets]
    by_others = scenario.answered not in (Answered.BY_ITSELF, Answered.NEVER)
    asked = by_others and answerable(tickets, left)
    return Role.ANSWER if asked else Role.WORK


def _open_runs(now: ThreadDump) -> list[RunRecord]:
    runs = [run for thread in now.threads() for run in thread.runs]
    return [run for run in runs if run.status is not RunStatus.DONE]


def _is_said(now: ThreadDump, scenario: Scenario) -> bool:
    """Whether users have said all they have to say. Of those that are interrupted before they
    start, the log has no word."""
    if scenario.submitted:
        return len(now.runs) == len(scenario.said)
    places = {said.thread for said in scenario.said}
    heard = [m for t in now.threads() if t.thread_id in places for m in prompts(t.messages)]
    return len(heard) == len(scenario.said)


def _live_once(stage: Stage, role: Role, kill_after: float | None) -> int:
    pid, beside_it = start(stage, role), beside(stage.scenario)
    if role is not Role.WORK or beside_it is None:
        return wait(pid, kill_after)
    other = start(stage, beside_it)
    try:
        return wait(pid, kill_after)
    finally:
        os.kill(other, signal.SIGKILL)  # what it has not done, the next one will
        wait(other)


def _tail(path: Path, lines: int = 40) -> str:
    text = path.read_text() if path.exists() else ""
    return "\n".join(text.splitlines()[-lines:])


# -- what must hold ---------------------------------------------------------------------------


def check(stage: Stage, undisturbed: Play, played: Play) -> Damage:
    """The damage of a play, with everything in which it differs from the undisturbed one."""
    scenario, final = stage.scenario, played.final
    open_calls = {key for dump in played.thread_dumps for key in dump.open_calls()}
    lost = [*played.damage.lost, *_unfounded(stage, final, open_calls), *scenario.holds(final)]
    lost.extend(asyncio.run(blob_faults(stage, final)))
    is_cut_short = scenario.cancelled is Cancelled.LATER and CANCELLED in _ends(final)
    if not is_cut_short and not scenario.is_interrupted:
        lost.extend(differences(undisturbed.final, final, open_calls, scenario.volatile))
    return msgspec.structs.replace(
        played.damage, doubled=(*played.damage.doubled, *_other_keys(stage)), lost=tuple(lost)
    )


def _ends(thread: ThreadDump) -> list[TerminationReason | None]:
    return [run.termination_reason for run in thread.runs]


def _other_keys(stage: Stage) -> Iterator[str]:
    """What was done under two keys: whoever told repeats by the key would not know this one."""
    keys: dict[tuple[str, str], set[str]] = {}
    for note in stage.effect_log.notes():
        if note.kind is NoteKind.EFFECT and note.name not in READS:
            keys.setdefault((note.name, dumps_text(note.detail)), set()).add(note.key)
    for (name, what), found in keys.items():
        if len(found) > 1:
            yield f"{name} got {len(found)} keys for one thing: {what}"


def _unfounded(stage: Stage, final: ThreadDump, open_calls: set[str]) -> Iterator[str]:
    """Outcomes that are not what happened."""
    effects = {note.key for note in stage.effect_log.notes() if note.kind is NoteKind.EFFECT}
    aside = stage.scenario.in_background
    runs = [run for thread in final.threads() for run in thread.runs]
    interrupted = {
        run.run_id
        for run in runs
        if stage.scenario.is_interrupted and run.termination_reason == CANCELLED
    }
    for call in (call for thread in final.threads() for call in thread.calls):
        name = call.tool_name
        if call.phase is CallPhase.UNKNOWN:
            # The user may interrupt a run while its tool works, as a kill may.
            if call.key not in open_calls and call.run_id not in interrupted:
                yield f"{name} was reported as unknown and was not open at any kill"
            if name not in stage.scenario.once | KILLS:
                yield f"{name} may be run again and was reported as unknown"
        has_acted = call.phase is CallPhase.SUCCEEDED and name in SHOP and name not in aside
        if has_acted and call.key not in effects:
            yield f"{name} has succeeded and never took effect"
    for run in runs:
        task = task_of(run)
        is_tool = task is not None and task["task"]["description"] in SHOP
        has_acted = is_tool and run.termination_reason == NATURAL_END
        if has_acted and task_key(run.run_id) not in effects:
            yield f"task {run.run_id} has succeeded and never took effect"
