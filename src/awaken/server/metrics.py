"""`/metrics`: the figures of a process, in the text format that Prometheus reads.

They cover the requests, streams, submissions and claims of this process, the live bus, what its
runs have used and how long they waited, how its store writes, and how long its lease still lasts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPMethod
from math import inf

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from awaken.clock import SYSTEM_CLOCK
from awaken.core.run import AgentRunResult
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Fence
from awaken.core.store.store import CountsUnreadable, Store
from awaken.errors import AwakenError
from awaken.runtime.metrics_hooks import RuntimeCallbacks
from awaken.runtime.runtime import Runtime
from awaken.server.call import ApiCall
from awaken.server.open_streams import OpenStreams
from awaken.server.route import Route

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset(HTTPMethod)


class Metrics:
    """The figures of one application. No label holds an id: the number of ids has no limit."""

    def __init__(self, runtime: Runtime, streams: OpenStreams) -> None:
        self._runtime, self._streams = runtime, streams
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._submissions: Counter[tuple[str, str]] = Counter()
        self._of_runs = RunMetrics(runtime, RuntimeCallbacks(runtime))
        self._of_store = StoreMetrics(runtime.store)

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that is over."""
        # Clients may invent methods, and each would become a label.
        self._requests[route, method if method in _METHODS else "other", status] += 1
        self._seconds.setdefault(route, Histogram()).observe(seconds)

    def count_submission(self, mode: str, result: str) -> None:
        """Count a submission that was accepted, had been accepted before, or was refused."""
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


async def metrics(call: ApiCall) -> ASGIApp:
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


_TOKENS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_creation": "cache_creation_tokens",
    "thinking": "thinking_tokens",
}
"""The kinds of tokens, and the field of a result that has their number."""
_UNKNOWN = "unknown"


class RunMetrics:
    """Counts what the runs of one runtime do, from now on. A run that pauses is counted when it has
    ended, by the process in which it ends."""

    def __init__(self, runtime: Runtime, news: RuntimeCallbacks) -> None:
        self._runtime = runtime
        self._queue = Histogram()
        self._commands: dict[str, Histogram] = {}
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._cost = 0.0
        self._takeovers = 0
        news.waited.subscribe(self._queue.observe)
        news.commands.subscribe(self._count_command)
        news.takeovers.subscribe(self._count_takeover)
        news.ended.subscribe(self._count_end)

    def lines(self) -> Iterator[str]:
        name = "awaken_queue_seconds"
        yield from head(name, "histogram", "Seconds from a submission to the start of its run.")
        yield from self._queue.lines(name, {})
        name = "awaken_commands_seconds"
        yield from head(name, "histogram", "Seconds until a command was taken by its run.")
        for kind, histogram in sorted(self._commands.items()):
            yield from histogram.lines(name, {"kind": kind})
        name = "awaken_takeovers_total"
        yield from head(name, "counter", "Threads taken over from a process that died.")
        yield line(name, {}, self._takeovers)
        name = "awaken_tokens_total"
        yield from head(name, "counter", "Tokens of runs that have ended.")
        for (model, kind), count in sorted(self._tokens.items()):
            yield line(name, {"model": model, "kind": kind}, count)
        name = "awaken_cost_total"
        yield from head(name, "counter", "Cost of runs that have ended, where prices are known.")
        yield line(name, {}, self._cost)

    def _count_command(self, command: ThreadCommand) -> None:
        if command.kind is not CommandKind.RUN:
            seconds = max(0, SYSTEM_CLOCK.now_ms() - command.at_ms) / 1000
            self._commands.setdefault(command.kind.value, Histogram()).observe(seconds)

    def _count_takeover(self, fence: Fence) -> None:
        self._takeovers += 1

    def _count_end(self, result: AgentRunResult | None) -> None:
        if result is None or result.waits:
            return
        model = self._model_of(result.agent_id)
        for kind, field in _TOKENS.items():
            if count := getattr(result, field):
                self._tokens[model, kind] += count
        self._cost += result.cost or 0.0

    def _model_of(self, agent_id: str) -> str:
        try:
            spec = self._runtime.engine.registry.snapshot().resolve_execution(agent_id).spec
        except AwakenError:
            return _UNKNOWN
        return spec.model_id or _UNKNOWN


_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class StoreMetrics:
    """Counts the batches of writes of one store, from now on. The store calls back after each
    batch."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seconds, self._sizes = Histogram(_SECONDS), Histogram(_SIZES)
        store.add_batch_callback(self._count_batch)

    def lines(self) -> Iterator[str]:
        name = "awaken_commit_seconds"
        yield from head(name, "histogram", "Seconds that a batch of commits took.")
        yield from self._seconds.lines(name, {})
        name = "awaken_commit_batch"
        yield from head(name, "histogram", "Commits and other writes that shared a batch.")
        yield from self._sizes.lines(name, {})
        lease = self._store.lease
        yield from head("awaken_lease_held", "gauge", "Whether this process may start effects.")
        yield line("awaken_lease_held", {}, int(lease.held))
        name = "awaken_lease_seconds_left"
        yield from head(name, "gauge", "Seconds until the lease runs out if it is not renewed.")
        yield line(name, {}, lease.seconds_left)
        if isinstance(self._store, CountsUnreadable):
            name = "awaken_unreadable_rows_total"
            yield from head(name, "counter", "Rows of the store that this process cannot decode.")
            for kind, count in sorted(self._store.count_unreadable().items()):
                yield line(name, {"kind": kind}, count)

    def _count_batch(self, size: int, seconds: float) -> None:
        self._sizes.observe(size)
        self._seconds.observe(seconds)


Labels = Mapping[str, object]
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


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
    inside = ",".join(f'{key}="{_escape(str(text))}"' for key, text in labels.items())
    shown = "+Inf" if value == inf else value
    return f"{name}{{{inside}}} {shown}" if inside else f"{name} {shown}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


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
