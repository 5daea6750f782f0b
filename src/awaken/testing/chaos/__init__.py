"""Killing a process at chosen points, and looking at what is left.

`KillSwitch` kills the own process with SIGKILL at the n-th point it passes. `watched_store`,
`watched_tool` and `watched_model` put points around what others bring. A `Witness` is the world
outside: a file that remembers what happened, whoever dies. `damage_between` says, from pictures of
a thread and the witness's notes, what was lost, done twice, or left open.
"""

from awaken.testing.chaos.picture import Picture, picture_of
from awaken.testing.chaos.review import Damage, damage_between, differences, transcript_faults
from awaken.testing.chaos.switch import KillSwitch
from awaken.testing.chaos.watch import watched_model, watched_store, watched_tool
from awaken.testing.chaos.witness import Note, NoteKind, Witness

__all__ = [
    "Damage",
    "KillSwitch",
    "Note",
    "NoteKind",
    "Picture",
    "Witness",
    "damage_between",
    "differences",
    "picture_of",
    "transcript_faults",
    "watched_model",
    "watched_store",
    "watched_tool",
]
