"""The two plots of the README as SVG, drawn from `results.json`. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from benchmarks.durable.figures import PEER_SIZES, growth_of
from benchmarks.others import DURABLE_PEERS, PEERS
from benchmarks.table import OURS, number

NAMES = {
    OURS: "Awaken",
    "agno": "Agno",
    "agent-framework-core": "Agent Framework",
    "langgraph": "LangGraph",
    "pydantic-ai-slim": "Pydantic AI",
}
WIDTH, EDGE = 760, 28
Results = Mapping[str, Any]

# An image does not know the page's own theme, so it brings a background of its own.
STYLE = """
  svg { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
  .card { fill: #ffffff; stroke: #d0d7de } .grid { stroke: #e4e8ec } .axis { stroke: #8c959f }
  text { fill: #57606a } .title { fill: #1f2328; font-size: 16px; font-weight: 600 }
  .label { fill: #1f2328 } .small { font-size: 11.5px }
  .ours { fill: #0b7a55 } .ours-line { stroke: #0b7a55 }
  .peer { fill: #8a63c9 } .peer-line { stroke: #8a63c9 }
  .bold { font-weight: 600 } .halo { stroke: #ffffff; stroke-width: 4; paint-order: stroke }
  polyline { fill: none; stroke-width: 2.5 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #30363d } .grid { stroke: #242a31 } .axis { stroke: #6e7681 }
    text { fill: #9aa4ae } .title, .label { fill: #e6edf3 }
    .ours { fill: #3fcf9a } .ours-line { stroke: #3fcf9a }
    .peer { fill: #b796f0 } .peer-line { stroke: #b796f0 } .halo { stroke: #0d1117 }
  }
"""


# -- a durable step, by the length of its thread -------------------------------------------------


def durable_step(results: Results) -> str:
    """CPU and bytes of a durable step: two panels, a line for each program."""
    height, left, gap = 402, EDGE + 18, 84
    width = (WIDTH - EDGE - 8 - left - gap) / 2
    panels = (
        _panel(results, "cpu", "CPU, ms", left, width),
        _panel(results, "disk", "written to disk, KB", left + width + gap, width),
    )
    keys = [growth_of(kind, size).key for kind in ("cpu", "disk") for size in PEER_SIZES]
    lines = [
        "One tool-calling step, its two commits on SQLite at full sync; less is better.",
        *_notes(results, keys, (OURS, *DURABLE_PEERS.values())),
    ]
    title = "A durable step, by the length of its thread"
    return _svg(title, height, [*panels, *_footer(lines, height)])


def _panel(results: Results, kind: str, caption: str, left: float, width: float) -> str:
    """One set of axes, both linear, and the line of each program that has figures."""
    top, bottom = 92.0, 280.0
    found = {
        program: [
            (size, figure["best"])
            for size in PEER_SIZES
            if (figure := figure_of(results, growth_of(kind, size).key, program))
        ]
        for program in (OURS, *DURABLE_PEERS.values())
    }
    series = {program: line for program, line in found.items() if line}
    most = _round_up(max(value for line in series.values() for _, value in line))

    def place(size: float, value: float) -> tuple[float, float]:
        return left + width * size / PEER_SIZES[-1], bottom - (bottom - top) * value / most

    parts = [_text(left, top - 22, caption, "label bold")]
    for share in range(5):
        _, y = place(0, most * share / 4)
        parts.append(_line(left, y, left + width, y, "axis" if share == 0 else "grid"))
        parts.append(_text(left - 8, y + 4, number(most * share / 4) or "0", "small", "end"))
    for size in PEER_SIZES:
        x, _ = place(size, 0)
        if size != 1_000:  # would touch the label at 0
            parts.append(_text(x, bottom + 18, f"{size:,}", "small", "middle"))
    parts.append(_text(left + width / 2, bottom + 36, "messages in the thread", "small", "middle"))
    for program, line in series.items():
        kind_of = "ours" if program == OURS else "peer"
        points = [place(*point) for point in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="{kind_of}-line" points="{path}"/>')
        dots = (f'<circle class="{kind_of}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points)
        parts.extend(dots)
        name = f"{NAMES[program]}: {number(line[-1][1])} {growth_of(kind, 0).unit}"
        x, y = points[-1]
        if x > left + width / 2:
            parts.append(_text(x, y - 10, name, f"{kind_of} bold halo", "end"))
        else:
            parts.append(_text(x + 10, y + 4, name, f"{kind_of} bold halo"))
    return "\n".join(parts)


def _round_up(value: float) -> float:
    """The next number above `value` that four equal parts of an axis look well with."""
    power = 10.0 ** (len(str(int(value))) - 1)
    return next(step * power for step in (1, 1.2, 1.6, 2, 4, 6, 8, 10) if step * power > value)


# -- a step in memory ------------------------------------------------------------------------------


class Bar(NamedTuple):
    program: str
    value: float


def step(results: Results) -> str:
    """A tool-calling step in memory: a bar for each program, the shortest first."""
    left, top, pitch, thick = 168.0, 72.0, 38.0, 22.0
    found = ((name, figure_of(results, "w1", name)) for name in (OURS, *PEERS.values()))
    bars = sorted((Bar(name, fig["best"]) for name, fig in found if fig), key=lambda bar: bar.value)
    ours = next(bar.value for bar in bars if bar.program == OURS)
    most, room = bars[-1].value, WIDTH - EDGE - left - 118
    parts = []
    for number_, bar in enumerate(bars):
        y, mine = top + pitch * number_, bar.program == OURS
        length = max(2.0, room * bar.value / most)
        times = "" if mine else f"  ({bar.value / ours:.1f} ×)"
        kind = "ours" if mine else "peer"
        name = _text(
            left - 12, y + 16, NAMES[bar.program], "label bold" if mine else "label", "end"
        )
        parts += [
            name,
            _rect(left, y, length, thick, 3, kind),
            _text(left + length + 8, y + 16, f"{number(bar.value)} µs{times}", "label"),
        ]
    lines = [
        "CPU of one step of 20 in a run, in memory; the model answers at once; less is better.",
        *_notes(results, ["w1"], [bar.program for bar in bars]),
    ]
    height = int(top + pitch * len(bars) + 32 + 17 * len(lines))
    return _svg("A tool-calling step", height, [*parts, *_footer(lines, height)])


# -- both ------------------------------------------------------------------------------------------


def figure_of(results: Results, key: str, program: str) -> Mapping[str, Any] | None:
    """The figure of a program, or `None` if it was not measured."""
    figure: Mapping[str, Any] | None = (
        results["rows"].get(key, {"programs": {}})["programs"].get(program)
    )
    return figure


def _notes(results: Results, keys: Iterable[str], programs: Sequence[str]) -> list[str]:
    """Which versions, on which Python and machine; whose figures come from an earlier run."""
    figures = {
        (key, name): figure
        for key in keys
        for name in programs
        if (figure := figure_of(results, key, name))
    }
    versions = results["versions"]
    earlier = {name for (_, name), figure in figures.items() if "earlier" in figure}
    named = [
        f"{NAMES[name]} {versions.get(name, '')}".strip() + ("*" if name in earlier else "")
        for name in programs
        if name in versions or name in earlier
    ]
    pythons = {f"Python {figure['python']}" for figure in figures.values() if "python" in figure}
    lines = [", ".join(named), ", ".join([*sorted(pythons), results["machine"]])]
    if earlier:
        lines[0] += "; * measured in an earlier run"
    return lines


def _footer(lines: Sequence[str], height: int) -> list[str]:
    first = height - 16 - 17 * (len(lines) - 1)
    return [_text(EDGE, first + 17 * n, line, "small") for n, line in enumerate(lines)]


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            _rect(0.5, 0.5, WIDTH - 1, height - 1, 8, "card"),
            _text(EDGE, 38, title, "title"),
            *parts,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, round_: int, kind: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {place} rx="{round_}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
