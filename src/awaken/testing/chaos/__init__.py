"""Killing a process at chosen points, and checking the store and the effects afterwards.

`KillSwitch` kills its own process with SIGKILL at the n-th point it passes. `watch_store`,
`watch_tool` and `watch_model` add points to stores, tools and models. An `EffectLog` stands for
the outside world: a file of events that survives the process. `damage_between` reads the dumps
of a thread tree and the effect log's notes, and says what was lost, done twice, or left open;
`differences` compares the dumps with those of an undisturbed conversation. `at_rest` says
whether any run still works, `questions` returns the open tickets, and `list_orphans` the delegates
whose parent has ended without them.
"""

from awaken.testing.chaos.compare import differences
from awaken.testing.chaos.damage import Damage, damage_between, transcript_faults
from awaken.testing.chaos.effect_log import EffectLog, KillSwitch, Note, NoteKind
from awaken.testing.chaos.instrument import watch_model, watch_store, watch_tool
from awaken.testing.chaos.store_dump import ThreadDump, dump_store, dump_thread, task_of
from awaken.testing.chaos.wait_idle import (
    ChangeWatcher,
    answerable,
    at_rest,
    list_orphans,
    open_runs,
    questions,
)

__all__ = [
    "ChangeWatcher",
    "Damage",
    "EffectLog",
    "KillSwitch",
    "Note",
    "NoteKind",
    "ThreadDump",
    "answerable",
    "at_rest",
    "damage_between",
    "differences",
    "dump_store",
    "dump_thread",
    "list_orphans",
    "open_runs",
    "questions",
    "task_of",
    "transcript_faults",
    "watch_model",
    "watch_store",
    "watch_tool",
]
