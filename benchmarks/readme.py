"""The plots and the table of figures in the README, made from `results.json`: `make plots`."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path

from benchmarks.plots import NAMES, Results, durable_step, figure_of, step
from benchmarks.table import OURS, RESULTS, number

PLOTS = {
    Path(__file__).with_name("plots") / "durable_step.svg": durable_step,
    Path(__file__).with_name("plots") / "step.svg": step,
}
README = Path(__file__).parents[1] / "README.md"
TABLE = re.compile(r"(?s)(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)")
MARK = " \\*"
ROWS = {
    "start": "a run that answers at once, in memory",
    "w1": "a tool-calling step, in memory",
    "w2": "a streamed delta",
    "w3": "one of 50 parallel calls",
    "w5_memory": "memory of one of 1,000 runs at once",
    "w4_cpu_4000": "a durable step, 4,000 messages in the thread: CPU",
    "w4_disk_4000": "… written to disk",
    "import": "import",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    check = parser.parse_args().check
    files = made()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if check and stale:
        names = ", ".join(path.name for path in stale)
        parser.exit(1, f"not what benchmarks/results.json says: {names}; run `make plots`\n")
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(files[path])


def made() -> dict[Path, str]:
    """The files that hold figures, as the results want them."""
    results, *others = json.loads(RESULTS.read_text()).values()
    plots = {path: draw(results) for path, draw in PLOTS.items()}
    return {**plots, README: TABLE.sub(lambda _: table(results, *others), README.read_text())}


def table(results: Results, *others: Results) -> str:
    """The figures of all programs on one Python in Markdown, with ours on other Pythons beside: the
    best sample of each."""
    rows = {key: text for key, text in ROWS.items() if figure_of(results, key, OURS)}
    ours, *peers = (name for name in NAMES if any(figure_of(results, key, name) for key in rows))
    beside = [f"{NAMES[ours]}, {_pythons(other, rows)}" for other in others]
    head = f"best of several runs, Python {_pythons(results, rows)}"
    head_line = [head, NAMES[ours], *beside, *(NAMES[peer] for peer in peers)]
    lines = [_line(head_line), "|---" * len(head_line) + "|"]
    for key, text in rows.items():
        mine = [_cell(each, key, ours) for each in (results, *others)]
        lines.append(_line([text, *mine, *(_cell(results, key, peer) for peer in peers)]))
    text = "\n".join(lines) + "\n"
    return f"{text}\n\\* measured in an earlier run\n" if MARK in text else text


def _pythons(results: Results, keys: Iterable[str]) -> str:
    """The versions and builds of Python on which ours was measured."""
    figures = [figure for key in keys if (figure := figure_of(results, key, OURS))]
    return ", ".join(sorted({str(figure.get("python", "?")) for figure in figures}))


def _cell(results: Results, key: str, program: str) -> str:
    figure = figure_of(results, key, program)
    if figure is None:
        return ""
    mark = MARK if "earlier" in figure else ""
    return f"{number(figure['best'])} {results['rows'][key]['unit']}{mark}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
