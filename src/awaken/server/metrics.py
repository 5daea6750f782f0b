"""`/metrics`: counts and times in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

from starlette.responses import Response
from starlette.types import ASGIApp

from awaken.front.runtime import Runtime
from awaken.server.call import Call
from awaken.server.open_streams import OpenStreams
from awaken.server.table import Route

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
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
            yield _line(f"{name}_bucket", {**labels, "le": bound}, total)
        yield _line(f"{name}_sum", labels, self._sum)
        yield _line(f"{name}_count", labels, total)


class Metrics:
    """The figures of one application. No label holds an id: those would grow without end."""

    def __init__(self, runtime: Runtime, streams: OpenStreams) -> None:
        self._runtime, self._streams = runtime, streams
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request is over."""
        self._requests[route, method, status] += 1
        self._seconds.setdefault(route, Histogram()).observe(seconds)

    def text(self) -> str:
        """All figures, as they are now."""
        return "\n".join(
            [*self._http(), *self._of_streams(), *self._of_runs(), *self._of_bus(), ""]
        )

    def _http(self) -> Iterator[str]:
        name = "awaken_http_requests_total"
        yield from _head(name, "counter", "Requests that are over.")
        for (route, method, status), count in sorted(self._requests.items()):
            yield _line(name, {"route": route, "method": method, "status": status}, count)
        name = "awaken_http_request_seconds"
        yield from _head(name, "histogram", "Seconds until a request was over, streams included.")
        for route, histogram in sorted(self._seconds.items()):
            yield from histogram.lines(name, {"route": route})

    def _of_streams(self) -> Iterator[str]:
        yield from _head("awaken_streams", "gauge", "Streams that are open.")
        for protocol, count in sorted(self._streams.by_protocol().items()):
            yield _line("awaken_streams", {"protocol": protocol}, count)
        name = "awaken_stream_behind_total"
        yield from _head(name, "counter", "Writes that waited for a slow client for a second.")
        yield _line(name, {}, self._streams.behind)

    def _of_runs(self) -> Iterator[str]:
        yield from _head("awaken_runs", "gauge", "Runs that are live in this process.")
        yield _line("awaken_runs", {"state": "running"}, self._runtime.live_runs)
        yield from _head("awaken_lease_held", "gauge", "Whether this process may start effects.")
        yield _line("awaken_lease_held", {}, int(self._runtime.store.lease.held))
        yield from _head("awaken_draining", "gauge", "Whether this process takes no new runs.")
        yield _line("awaken_draining", {}, int(self._runtime.is_draining))

    def _of_bus(self) -> Iterator[str]:
        health = self._runtime.bus_health
        if health is None:
            return
        yield from _head("awaken_bus_up", "gauge", "Whether the live bus has a connection.")
        yield _line("awaken_bus_up", {}, int(health.is_up))
        name = "awaken_bus_sent_total"
        yield from _head(name, "counter", "Messages sent over the live bus.")
        yield _line(name, {}, health.sent)
        name = "awaken_bus_dropped_total"
        yield from _head(name, "counter", "Live events and messages that were given up.")
        for reason, count in sorted(health.dropped.items()):
            yield _line(name, {"reason": reason}, count)


def _head(name: str, kind: str, help: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(str(text))}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


async def metrics(call: Call) -> ASGIApp:
    text = call.request.app.state.observer.metrics.text()
    return Response(text, media_type=CONTENT_TYPE)


ROUTES = (
    Route(
        method="GET",
        path="/metrics",
        handle=metrics,
        summary="Figures of this process, for Prometheus",
        answers={200: str},
        media_type="text/plain",
    ),
)
