"""All workloads, ours beside the floor, and with `--peers` beside other libraries.

`--only loop` leaves out durable work, `--only durable` everything else. `--beside PATH` also
measures the awaken of another checkout's `src`: the column `before`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import others
from benchmarks.durable.measure import measure_durable
from benchmarks.durable.tables import tables
from benchmarks.measure import build, interpreter
from benchmarks.others import Source
from benchmarks.table import BEFORE, FLOOR, GUARDED, OURS, RESULTS, Figures
from benchmarks.work import IMPORT, IMPORT_ONLY, Unsupported

SAMPLES_IN_A_TURN = 2
MEMORY_SAMPLES = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--repeat", type=int, default=8, help="samples of each figure")
    parser.add_argument("--peers", action="store_true", help="measure other libraries, too")
    parser.add_argument("--beside", type=Path, metavar="PATH", help="another checkout's src")
    parser.add_argument("--only", choices=("loop", "durable"), help="measure one half")
    options = parser.parse_args()
    figures = Figures(build())
    python = others.peers_python() if options.peers else None
    if python is not None:
        figures.versions = others.versions(python)
    if options.only != "durable":
        measure_loop(figures, options.repeat, sources(options.beside, python))
        print(figures.table())
    if options.only != "loop":
        measure_disk(figures, options.repeat, python)
    figures.save()
    say(f"written to benchmarks/{RESULTS.name}")


# -- the loop, in memory ------------------------------------------------------------------------


def sources(beside: Path | None, peers_python: str | None) -> list[Source]:
    found = [
        Source(FLOOR, "floor"),
        Source(GUARDED, "floor", environment=(("GUARDED", "1"),)),
        Source(OURS, "ours"),
    ]
    if beside is not None:
        found.append(Source(BEFORE, "ours", path=str(beside.resolve())))
    if peers_python is not None:
        peers = others.PEERS.items()
        found += [Source(name, f"peers.{module}", peers_python) for module, name in peers]
    return found


def measure_loop(figures: Figures, repeat: int, programs: Sequence[Source]) -> None:
    """Every program in fresh processes, turn by turn, so that all see the same machine."""
    imports = {}
    turns = max(1, repeat // SAMPLES_IN_A_TURN)
    for turn in range(turns):
        for program in programs:
            say(f"turn {turn + 1} of {turns}: {program.name}")
            answer = others.run(program, "--repeat", str(SAMPLES_IN_A_TURN))
            figures.take(program.name, answer)
            imports[program] = answer.imports
            if turn < MEMORY_SAMPLES:
                figures.take(program.name, others.run(program, "--memory"))
    measure_imports(figures, repeat, imports)


def measure_imports(figures: Figures, repeat: int, imports: dict[Source, str]) -> None:
    """Fresh interpreters, turn by turn; the first round fills the caches and does not count."""
    say("imports")
    bare: list[float] = []
    whole: dict[str, list[float]] = {program.name: [] for program in imports}
    for _ in range(repeat + 1):
        bare.append(interpreter(sys.executable, "pass"))
        for program, statement in imports.items():
            whole[program.name].append(interpreter(program.python, statement, program.path))
    for name, values in whole.items():
        figures.add(IMPORT.key, name, *values[1:])
        figures.add(IMPORT_ONLY.key, name, *(value - min(bare[1:]) for value in values[1:]))


# -- durable work -------------------------------------------------------------------------------


def measure_disk(figures: Figures, repeat: int, peers_python: str | None) -> None:
    """Measure durable work and print it; say why not if the system does not tell what it takes."""
    try:
        measure_durable(figures, repeat, say)
    except Unsupported as reason:
        return say(f"no durable work: {reason}")
    if peers_python is not None:
        for module, name in others.DURABLE_PEERS.items():
            say(f"peer: {name}, durable")
            peer = Source(name, f"peers.{module}", peers_python)
            figures.take(name, others.run(peer, "--repeat", str(repeat)))
    print(f"\n{tables(figures)}\n")


def say(text: str) -> None:
    print(f"… {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
