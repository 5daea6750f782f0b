"""All workloads, ours beside the floor, and with `--peers` beside other libraries.

`--only loop` leaves out durable work, `--only durable` everything else.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import others
from benchmarks.durable.measure import measure_durable
from benchmarks.durable.tables import tables
from benchmarks.floor import Floor
from benchmarks.measure import interpreter, sample
from benchmarks.ours import Awaken
from benchmarks.table import FLOOR, GUARDED, OURS, RESULTS, Figures
from benchmarks.work import IMPORT, IMPORT_ONLY, WORKLOADS, Program, Unsupported

MEMORY_SAMPLES = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--repeat", type=int, default=7, help="samples of each figure")
    parser.add_argument("--peers", action="store_true", help="measure other libraries, too")
    parser.add_argument("--only", choices=("loop", "durable"), help="measure one half")
    options = parser.parse_args()
    figures = Figures()
    python = others.peers_python() if options.peers else None
    if python is not None:
        figures.versions = others.versions(python)
    if options.only != "durable":
        measure_loop(figures, options.repeat, python)
        print(figures.table())
    if options.only != "loop":
        measure_disk(figures, options.repeat, python)
    figures.save()
    say(f"written to benchmarks/{RESULTS.name}")


# -- the loop, in memory ------------------------------------------------------------------------


def measure_loop(figures: Figures, repeat: int, peers_python: str | None) -> None:
    measure_here(figures, repeat)
    for name, module in ((FLOOR, "floor"), (OURS, "ours")):
        measure_memory(figures, name, sys.executable, module)
    imports = {name: program.imports for name, program in PROGRAMS.items() if name != GUARDED}
    measure_imports(figures, repeat, sys.executable, imports)
    if peers_python is not None:
        measure_peers(figures, repeat, peers_python)


PROGRAMS: dict[str, Program] = {FLOOR: Floor(), GUARDED: Floor(guarded=True), OURS: Awaken()}


def measure_here(figures: Figures, repeat: int) -> None:
    """Ours and the floor in this process, turn by turn, so that both see the same machine."""
    for workload in WORKLOADS:
        say(workload.title)
        for _ in range(repeat):
            for name, program in PROGRAMS.items():
                figures.add(workload.key, name, sample(workload, program))


def measure_memory(figures: Figures, name: str, python: str, module: str) -> None:
    """A fresh process for each sample."""
    for _ in range(MEMORY_SAMPLES):
        figures.take(name, others.run(python, module, "--memory"))


def measure_imports(figures: Figures, repeat: int, python: str, imports: dict[str, str]) -> None:
    """Fresh interpreters, turn by turn; the first round fills the caches and does not count."""
    say("imports")
    bare: list[float] = []
    whole: dict[str, list[float]] = {name: [] for name in imports}
    for _ in range(repeat + 1):
        bare.append(interpreter(python, "pass"))
        for name, statement in imports.items():
            whole[name].append(interpreter(python, statement))
    for name, values in whole.items():
        figures.add(IMPORT.key, name, *values[1:])
        figures.add(IMPORT_ONLY.key, name, *(value - min(bare[1:]) for value in values[1:]))


def measure_peers(figures: Figures, repeat: int, python: str) -> None:
    imports = {}
    for module, name in others.PEERS.items():
        say(f"peer: {name}")
        answer = others.run(python, f"peers.{module}", "--repeat", str(repeat))
        imports[name] = answer.imports
        figures.take(name, answer)
        measure_memory(figures, name, python, f"peers.{module}")
    measure_imports(figures, repeat, python, imports)


# -- durable work -------------------------------------------------------------------------------


def measure_disk(figures: Figures, repeat: int, peers_python: str | None) -> None:
    """Measure what is durable, and print it; nothing if the system does not tell."""
    try:
        measure_durable(figures, repeat, say)
    except Unsupported as reason:
        return say(f"no durable work: {reason}")
    if peers_python is not None:
        for module, name in others.DURABLE_PEERS.items():
            say(f"peer: {name}, durable")
            answer = others.run(peers_python, f"peers.{module}", "--repeat", str(repeat))
            figures.take(name, answer)
    print(f"\n{tables(figures)}\n")


def say(text: str) -> None:
    print(f"… {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
