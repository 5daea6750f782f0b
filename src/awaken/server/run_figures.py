"""What the runs of a process have used up, and how long they and their commands have waited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from awaken.clock import SYSTEM_CLOCK
from awaken.core.result import AgentRunResult
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Fence
from awaken.errors import AwakenError
from awaken.runtime.metrics_hooks import RuntimeNews
from awaken.runtime.runtime import Runtime
from awaken.server.figures import Histogram, head, line

_TOKENS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_creation": "cache_creation_tokens",
    "thinking": "thinking_tokens",
}
"""The kinds of tokens, and where a result has their number."""
_UNKNOWN = "unknown"


class RunFigures:
    """Counts what the runs of one runtime do, from now on. A run that pauses is counted when it has
    ended, by the process in which it ends."""

    def __init__(self, runtime: Runtime, news: RuntimeNews) -> None:
        self._runtime = runtime
        self._queue = Histogram()
        self._commands: dict[str, Histogram] = {}
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._cost = 0.0
        self._takeovers = 0
        news.waited.subscribe(self._queue.observe)
        news.commands.subscribe(self._take)
        news.takeovers.subscribe(self._take_over)
        news.ended.subscribe(self._end)

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

    def _take(self, command: ThreadCommand) -> None:
        if command.kind is not CommandKind.RUN:
            seconds = max(0, SYSTEM_CLOCK.now_ms() - command.at_ms) / 1000
            self._commands.setdefault(command.kind.value, Histogram()).observe(seconds)

    def _take_over(self, fence: Fence) -> None:
        self._takeovers += 1

    def _end(self, result: AgentRunResult | None) -> None:
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
