"""The figures of durable work. Standard library only: the peers' programs give some of them."""

from __future__ import annotations

from benchmarks.work import Figure

SIZES = (0, 1_000, 4_000, 10_000, 100_000)
"""Messages a thread has before the run that is measured."""

PEER_SIZES = (0, 1_000, 4_000, 10_000)
SMALL_STEPS = 400

# -- W4: growth -------------------------------------------------------------------------------

_GROWTH = {
    "cpu": ("CPU of a durable step", "ms", 0.55),
    "wall": ("a durable step", "ms", None),
    "wal": ("log of a durable step", "KB", 24),
    "disk": ("disk writes of a durable step", "KB", 24),
    "unkept_cpu": ("CPU of a durable step without kept requests", "ms", None),
    "unkept_wal": ("log of a durable step without kept requests", "KB", None),
    "fixed": ("CPU of a run but its steps", "ms", None),
    "start": ("from asking for a run to asking the model", "ms", None),
    "start_cpu": ("the same, CPU", "ms", None),
    "start_read": ("the same, bytes read", "KB", None),
    "newest_cpu": ("CPU of a durable step in a file's newest thread", "ms", 0.55),
    "newest_wal": ("log of a durable step in a file's newest thread", "KB", 24),
    "whole_cpu": ("CPU of a durable step without a window", "ms", None),
    "whole_start": ("from asking to asking without a window", "ms", None),
    "whole_read": ("the same, bytes read", "KB", None),
}


def growth_of(kind: str, size: int) -> Figure:
    title, unit, budget = _GROWTH[kind]
    return Figure(f"w4_{kind}_{size}", f"W4 {title}, {size:,} messages", unit, budget)


# -- throughput -------------------------------------------------------------------------------

CROWDS = (1, 10, 100)
LEVELS = ("full", "normal")

_CROWD = {
    "steps": ("steps a second", "1/s", True),
    "transactions": ("transactions a second", "1/s", False),
    "shared": ("commits a transaction", "", True),
    "cpu": ("CPU of a step", "ms", False),
}


def crowd_of(kind: str, level: str, runs: int) -> Figure:
    title, unit, more = _CROWD[kind]
    text = f"{title}, {runs} runs at once, synchronous={level}"
    return Figure(f"crowd_{kind}_{level}_{runs}", text, unit, None, more)


# -- size, and other processes ----------------------------------------------------------------

SIZE = Figure("size", f"file after {SMALL_STEPS} small steps", "MB", None)

WORDS = ("cancel", "message", "decision")


def notice_of(word: str) -> Figure:
    return Figure(f"notice_{word}", f"a {word} from another process is noticed", "ms", 250)


FIGURES = (
    *(growth_of(kind, size) for kind in _GROWTH for size in SIZES),
    *(crowd_of(kind, level, runs) for kind in _CROWD for level in LEVELS for runs in CROWDS),
    SIZE,
    *map(notice_of, WORDS),
)
