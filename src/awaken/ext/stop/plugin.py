"""The plugin: one hook that keeps statistics for all policies."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.inference import LLMResponse
from awaken.core.lifecycle import Phase, Stopped, StoppedReason
from awaken.core.spec import AgentSpec, LoopDetection, MaxRounds, StopConditionSpec, Timeout
from awaken.core.state.command import Command, ScheduledActionSpec
from awaken.core.state.run_keys import (
    RECENT_TEXTS,
    RUN_LIFECYCLE,
    STOP_STATS,
    Done,
    StopConditionStats,
)
from awaken.core.state.snapshot import Snapshot
from awaken.ext.stop.policy import first_stop
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar

STOP_BEFORE_NEXT_INFERENCE: ScheduledActionSpec[StoppedReason] = ScheduledActionSpec(
    "stop-condition.stop_before_next_inference", Phase.BEFORE_INFERENCE, StoppedReason
)


class StopConditionPlugin:
    """Counts after every inference and ends the run when a policy says so.

    A final answer in the last allowed round ends the run naturally; only further tool calls are
    stopped.
    """

    id = "stop-condition"

    def __init__(self, policies: Sequence[StopConditionSpec], clock: Clock = SYSTEM_CLOCK) -> None:
        # A limit of 0 switches a round limit off, so there is nothing to check.
        self._policies = tuple(p for p in policies if p != MaxRounds(rounds=0))
        rounds = (p.rounds for p in self._policies if isinstance(p, MaxRounds))
        self._fewest_rounds = min(rounds, default=0)
        self._clock = clock
        windows = (p.window for p in policies if isinstance(p, LoopDetection))
        self._texts_kept = min(max(windows, default=0), RECENT_TEXTS)

    @classmethod
    def for_agent(cls, spec: AgentSpec, clock: Clock = SYSTEM_CLOCK) -> StopConditionPlugin:
        """The plugin with the agent's `max_rounds` and its own conditions."""
        return cls((MaxRounds(rounds=spec.max_rounds), *spec.stop_conditions), clock)

    def register(self, registrar: Registrar) -> None:
        registrar.key(STOP_STATS)
        registrar.action(STOP_BEFORE_NEXT_INFERENCE, self.stop)
        if not self._policies:
            return
        if all(isinstance(policy, MaxRounds) for policy in self._policies):
            registrar.hook(Phase.AFTER_INFERENCE, self.count_rounds, when=self.is_last_round)
            return
        if any(isinstance(policy, Timeout) for policy in self._policies):
            registrar.hook(Phase.RUN_START, self.run_start)
        registrar.hook(Phase.AFTER_INFERENCE, self.after_inference)

    async def run_start(self, ctx: PhaseContext) -> Command | None:
        """Note when the run started, unless it continues after a pause."""
        stats = ctx.read(STOP_STATS) or StopConditionStats()
        if stats.started_at_ms is not None:
            return None
        started = msgspec.structs.replace(stats, started_at_ms=self._clock.now_ms())
        return Command().update(STOP_STATS, started)

    def is_last_round(self, snapshot: Snapshot) -> bool:
        lifecycle = snapshot.get(RUN_LIFECYCLE)
        return lifecycle is not None and lifecycle.step_count + 1 >= self._fewest_rounds

    async def count_rounds(self, ctx: PhaseContext) -> Command | None:
        """The usual case, a round limit alone: the lifecycle already counts the rounds."""
        lifecycle, response = ctx.read(RUN_LIFECYCLE), ctx.llm_response
        if lifecycle is None or response is None:
            return None
        found = first_stop(self._policies, StopConditionStats(step_count=lifecycle.step_count + 1))
        return self._stop(Command(), response, found) if found is not None else None

    async def after_inference(self, ctx: PhaseContext) -> Command | None:
        response = ctx.llm_response
        if response is None:
            return None
        stats = self._count(ctx.read(STOP_STATS) or StopConditionStats(), response)
        command = Command().update(STOP_STATS, stats)
        found = first_stop(self._policies, stats)
        return self._stop(command, response, found) if found is not None else command

    def _stop(
        self,
        command: Command,
        response: LLMResponse,
        found: tuple[StopConditionSpec, StoppedReason],
    ) -> Command:
        policy, reason = found
        answered = response.success is not None and not response.success.needs_tools
        if isinstance(policy, MaxRounds) and answered:
            # The answer may be the run's natural end; only another inference must not happen.
            return command.schedule_action(STOP_BEFORE_NEXT_INFERENCE, reason)
        return command.extend(self._end_run(reason))

    async def stop(self, _: PhaseContext, reason: StoppedReason) -> Command:
        return self._end_run(reason)

    def _end_run(self, reason: StoppedReason) -> Command:
        return Command().update(
            RUN_LIFECYCLE,
            Done(
                reason=f"stopped:{reason.code}",
                updated_at=self._clock.now_ms(),
                termination=Stopped(value=reason),
            ),
        )

    def _count(self, stats: StopConditionStats, response: LLMResponse) -> StopConditionStats:
        now = self._clock.now_ms()
        started = stats.started_at_ms if stats.started_at_ms is not None else now
        steps, elapsed = stats.step_count + 1, max(0, now - started)
        result = response.success
        if result is None:
            return msgspec.structs.replace(
                stats,
                step_count=steps,
                started_at_ms=started,
                elapsed_ms=elapsed,
                consecutive_errors=stats.consecutive_errors + 1,
            )
        text, usage, texts = result.text(), result.usage, stats.recent_response_texts
        if self._texts_kept and text:
            texts = (*texts, text)[-self._texts_kept :]
        spent_in = (usage.prompt_tokens or 0) if usage is not None else 0
        spent_out = (usage.completion_tokens or 0) if usage is not None else 0
        return StopConditionStats(
            step_count=steps,
            total_input_tokens=stats.total_input_tokens + max(0, spent_in),
            total_output_tokens=stats.total_output_tokens + max(0, spent_out),
            started_at_ms=started,
            elapsed_ms=elapsed,
            consecutive_errors=0,
            last_tool_names=tuple([call.name for call in result.tool_calls]),
            last_response_text=text,
            recent_response_texts=texts,
        )
