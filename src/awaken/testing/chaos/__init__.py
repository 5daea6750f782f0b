"""Killing a process at chosen points, and checking what is left.

`KillSwitch` kills its own process with SIGKILL at the n-th point it passes. `watched_store`,
`watched_tool` and `watched_model` add points to stores, tools and models. A `Witness` stands for
the outside world: a file of events that survives the process. `damage_between` reads the pictures
of a thread tree and the witness's notes, and says what was lost, done twice, or left open;
`differences` compares the pictures with those of an undisturbed conversation. `at_rest` says
whether anything is still running, `questions` returns the open tickets, and `list_orphans` the
delegates that were left behind.
"""

from awaken.testing.chaos.compare import differences
from awaken.testing.chaos.damage import Damage, damage_between, transcript_faults
from awaken.testing.chaos.effect_log import KillSwitch, Note, NoteKind, Witness
from awaken.testing.chaos.instrument import watched_model, watched_store, watched_tool
from awaken.testing.chaos.store_dump import Picture, picture_of, task_of, whole_picture_of
from awaken.testing.chaos.wait_idle import (
    ThreadChanges,
    answerable,
    at_rest,
    list_orphans,
    open_runs,
    questions,
)

__all__ = [
    "Damage",
    "KillSwitch",
    "Note",
    "NoteKind",
    "Picture",
    "ThreadChanges",
    "Witness",
    "answerable",
    "at_rest",
    "damage_between",
    "differences",
    "list_orphans",
    "open_runs",
    "picture_of",
    "questions",
    "task_of",
    "transcript_faults",
    "watched_model",
    "watched_store",
    "watched_tool",
    "whole_picture_of",
]
