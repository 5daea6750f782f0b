"""Figures in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from math import inf

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
Labels = Mapping[str, object]


class Histogram:
    """How many observations were at most as large as each bound."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = BUCKETS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield line(f"{name}_bucket", {**labels, "le": bound}, total)
        yield line(f"{name}_sum", labels, self._sum)
        yield line(f"{name}_count", labels, total)


def head(name: str, kind: str, help: str) -> Iterator[str]:
    """The lines that introduce a figure; `kind` is counter, gauge or histogram."""
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def line(name: str, labels: Labels, value: float) -> str:
    """The line of one value."""
    inside = ",".join(f'{key}="{_escaped(str(text))}"' for key, text in labels.items())
    shown = "+Inf" if value == inf else value
    return f"{name}{{{inside}}} {shown}" if inside else f"{name} {shown}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
