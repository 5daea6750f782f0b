"""Killing a process at chosen points, and looking at what is left.

`KillSwitch` kills the own process with SIGKILL at the n-th point it passes. `watched_store`,
`watched_tool` and `watched_model` put points around what others bring. A `Witness` is the world
outside: a file that remembers what happened, whoever dies. `damage_between` says, from pictures of
a thread and those beneath it and the witness's notes, what was lost, done twice, or left open;
`differences` compares them with those of a conversation nobody disturbed. `at_rest` says whether
anything still moves, `questions` what is asked.
"""

from awaken.testing.chaos.compare import differences
from awaken.testing.chaos.picture import Picture, picture_of, task_of, whole_picture_of
from awaken.testing.chaos.rest import ThreadChanges, answerable, at_rest, open_runs, questions
from awaken.testing.chaos.review import Damage, damage_between, transcript_faults
from awaken.testing.chaos.switch import KillSwitch
from awaken.testing.chaos.watch import watched_model, watched_store, watched_tool
from awaken.testing.chaos.witness import Note, NoteKind, Witness

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
