"""Figures in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
Labels = Mapping[str, object]


class Histogram:
    """How many observations were at most as large as each bound."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(BUCKETS, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        total = 0
        for bound, count in zip((*BUCKETS, "+Inf"), self._counts, strict=True):
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
    return f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
