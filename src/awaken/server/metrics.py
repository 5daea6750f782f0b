"""`/metrics`: counts and times in the text format that Prometheus reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from http import HTTPMethod

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from awaken.runtime.metrics_hooks import RuntimeNews
from awaken.runtime.runtime import Runtime
from awaken.server.call import Call
from awaken.server.figures import Histogram, head, line
from awaken.server.open_streams import OpenStreams
from awaken.server.route import Route
from awaken.server.run_figures import RunFigures
from awaken.server.store_figures import StoreFigures

PATH = "/metrics"
_METHODS = frozenset(HTTPMethod)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The figures of one application. No label holds an id: those would grow without end."""

    def __init__(self, runtime: Runtime, streams: OpenStreams) -> None:
        self._runtime, self._streams = runtime, streams
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._submissions: Counter[tuple[str, str]] = Counter()
        self._of_runs = RunFigures(runtime, RuntimeNews(runtime))
        self._of_store = StoreFigures(runtime.store)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request is over."""
        # A client may make methods up, and each would be a label for ever.
        self._requests[route, method if method in _METHODS else "other", status] += 1
        self._seconds.setdefault(route, Histogram()).observe(seconds)

    def submission(self, mode: str, result: str) -> None:
        """A submission was taken, had been taken before, or was refused."""
        self._submissions[mode, result] += 1

    def text(self) -> str:
        """All figures, as they are now."""
        of_process = (*self._http(), *self._of_streams(), *self._of_submissions(), *self._of_node())
        others = (*self._of_bus(), *self._of_store.lines(), *self._of_runs.lines())
        return "\n".join([*of_process, *others, ""])

    def _http(self) -> Iterator[str]:
        name = "awaken_http_requests_total"
        yield from head(name, "counter", "Requests that are over.")
        for (route, method, status), count in sorted(self._requests.items()):
            yield line(name, {"route": route, "method": method, "status": status}, count)
        name = "awaken_http_request_seconds"
        yield from head(name, "histogram", "Seconds until a request was over, streams included.")
        for route, histogram in sorted(self._seconds.items()):
            yield from histogram.lines(name, {"route": route})

    def _of_streams(self) -> Iterator[str]:
        yield from head("awaken_streams", "gauge", "Streams that are open.")
        for protocol, count in sorted(self._streams.by_protocol().items()):
            yield line("awaken_streams", {"protocol": protocol}, count)
        name = "awaken_stream_behind_total"
        yield from head(name, "counter", "Writes that waited for a slow client for a second.")
        yield line(name, {}, self._streams.behind)

    def _of_submissions(self) -> Iterator[str]:
        name = "awaken_submissions_total"
        yield from head(name, "counter", "Runs that clients have asked this process for.")
        for (mode, result), count in sorted(self._submissions.items()):
            yield line(name, {"mode": mode, "result": result}, count)

    def _of_bus(self) -> Iterator[str]:
        health = self._runtime.bus_health
        if health is None:
            return
        yield from head("awaken_bus_up", "gauge", "Whether the live bus has a connection.")
        yield line("awaken_bus_up", {}, int(health.is_up))
        name = "awaken_bus_sent_total"
        yield from head(name, "counter", "Messages sent over the live bus.")
        yield line(name, {}, health.sent)
        name = "awaken_bus_lost_total"
        yield from head(name, "counter", "Live events and messages that were given up.")
        for reason, count in sorted(health.dropped.items()):
            yield line(name, {"reason": reason}, count)

    def _of_node(self) -> Iterator[str]:
        yield from head("awaken_runs", "gauge", "Runs that are live in this process.")
        yield line("awaken_runs", {"state": "running"}, self._runtime.live_runs)
        yield from head("awaken_draining", "gauge", "Whether this process takes no new runs.")
        yield line("awaken_draining", {}, int(self._runtime.is_draining))
        claims = self._runtime.engine.claims
        yield from head("awaken_claims", "gauge", "Threads that this process owns, by what for.")
        for use, count in claims.by_use().items():
            yield line("awaken_claims", {"use": use.value}, count)
        name = "awaken_claims_mended_total"
        yield from head(name, "counter", "Threads released that were owned without a run.")
        yield line(name, {}, claims.mended)


async def metrics(call: Call) -> ASGIApp:
    text = call.request.app.state.observer.metrics.text()
    return Response(text, media_type=CONTENT_TYPE)


class MetricsPage:
    """An application with the figures of another one at `/metrics`, and nothing else."""

    def __init__(self, figures: Metrics) -> None:
        self._figures = figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = Response(status_code=404)
        if scope["path"] == PATH and scope["method"] in ("GET", "HEAD"):
            answer = Response(self._figures.text(), media_type=CONTENT_TYPE)
        await answer(scope, receive, send)


ROUTES = (
    Route(
        method="GET",
        path=PATH,
        handle=metrics,
        name="get_metrics",
        summary="Figures of this process, for Prometheus",
        answers={200: str},
        media_type="text/plain",
    ),
)
