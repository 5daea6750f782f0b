"""The plugin: when a conversation gets long, its beginning is shown as a summary."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from awaken.core.run import PersistedState
from awaken.errors import KeyDecode
from awaken.ext.compaction.config import SECTION, CompactionConfig, section_schema
from awaken.ext.compaction.plan import plan, summary_message
from awaken.ext.compaction.state import (
    COMPACTION,
    Begin,
    CompactionBoundary,
    CompactionMishap,
    Complete,
    Fail,
    Forget,
    InFlight,
    Skip,
)
from awaken.ext.compaction.summary import Jobs, SummaryJob, summarise
from awaken.plugin.compactor import Compactor, LiveConversation
from awaken.plugin.hook import ConfigSchema
from awaken.plugin.registrar import Registrar

COMPACTION_PLUGIN_ID = "context_compaction"

STARTED = "compaction.started"
COMPACTED = "context.compacted"
FAILED = "context.compaction_failed"
SKIPPED = "compaction.skipped"

MIN_SAVINGS = "min_savings_ratio"

log = logging.getLogger("awaken.compaction")


class CompactionPlugin:
    """Makes summaries in the background, and puts them into use between two steps.

    No run waits for a summary; if the run ends first, the next run of its thread uses it. The model
    is shown only the summary, and the thread keeps every message. One plugin serves all agents of a
    runtime.
    """

    id = COMPACTION_PLUGIN_ID

    def __init__(self) -> None:
        self._jobs = Jobs()

    def register(self, registrar: Registrar) -> None:
        registrar.key(COMPACTION)
        registrar.service(Compactor, self)  # type: ignore[type-abstract]  # the Protocol is only a key to find the service

    def config_schemas(self) -> Sequence[ConfigSchema]:
        return [ConfigSchema(key=SECTION, json_schema=section_schema())]

    async def close(self, *, leave: bool = False) -> None:
        """Cancel unfinished summaries; the next run of each thread starts a new one."""
        await self._jobs.close()

    def before_step(self, talk: LiveConversation) -> None:
        """Use a summary that is finished, or start one if the conversation is long enough."""
        state = talk.state.read(COMPACTION)
        if state is not None and state.in_flight is not None:
            job = self._jobs.find(talk.identity.thread_id, state.in_flight.task_id)
            if job is None:
                # The process that was making it has ended, or is another one.
                talk.state.update(COMPACTION, Forget(task_id=state.in_flight.task_id))
            elif not job.future.done():
                return
            else:
                self._take(talk, job)
        threshold = talk.policy.autocompact_threshold
        if threshold is not None and talk.tokens() >= threshold and talk.is_new_turn():
            self._begin(talk)

    def last_summary_seq(self, thread_state: PersistedState) -> int | None:
        """The position in the log of a thread's last summary; `None` if it has none."""
        recorded = thread_state.extensions.get(COMPACTION.name)
        return COMPACTION.load(recorded).last_summary_seq if recorded is not None else None

    # -- beginning ----------------------------------------------------------------------------

    def _begin(self, talk: LiveConversation) -> None:
        config = _config(talk)
        if config.mode == "off":
            return
        found = plan(talk.messages(), config.suffix(talk.policy), talk.counter)
        if found is None:
            return
        thread_id, task_id = talk.identity.thread_id, talk.ids.new()
        flight = InFlight(
            task_id=task_id,
            boundary_message_id=found.boundary_message_id,
            started_at_ms=talk.clock.now_ms(),
        )
        talk.state.update(COMPACTION, Begin(flight=flight))
        self._jobs.start(thread_id, task_id, found, summarise(talk, found, config))
        about = {"boundary_message_id": found.boundary_message_id, "tokens": found.tokens}
        talk.emit(STARTED, task_id, about)

    # -- taking in ----------------------------------------------------------------------------

    def _take(self, talk: LiveConversation, job: SummaryJob) -> None:
        self._jobs.drop(talk.identity.thread_id)
        outcome = job.future.result()
        about = {"boundary_message_id": job.boundary_message_id}
        if outcome.error is not None:
            log.warning("thread %s: summary failed: %s", talk.identity.thread_id, outcome.error)
            talk.state.update(COMPACTION, Fail(mishap=_mishap(talk, job, outcome.error)))
            return talk.emit(FAILED, job.task_id, {**about, "error": outcome.error})
        summary = summary_message(outcome.text, talk.ids.new())
        before, after = job.tokens, talk.counter.message(summary)
        savings = 1 - after / before
        if savings < _config(talk).min_savings_ratio:
            talk.state.update(COMPACTION, Skip(mishap=_mishap(talk, job, MIN_SAVINGS)))
            ppm = int(savings * 1_000_000)
            payload = {**about, "reason": MIN_SAVINGS, "savings_ppm": ppm}
            return talk.emit(SKIPPED, job.task_id, payload)
        folded = talk.fold(job.boundary_message_id, summary)
        if folded is None:
            talk.state.update(COMPACTION, Forget(task_id=job.task_id))
            return None
        boundary = CompactionBoundary(
            boundary_message_id=job.boundary_message_id,
            summary_message_id=summary.id or "",
            summary_seq=folded.seq,
            pre_tokens=before,
            post_tokens=after,
            at_ms=talk.clock.now_ms(),
        )
        talk.state.update(COMPACTION, Complete(task_id=job.task_id, boundary=boundary))
        payload = {**about, "summary_message_id": summary.id, "pre_tokens": before}
        return talk.emit(COMPACTED, job.task_id, {**payload, "post_tokens": after})


def _config(talk: LiveConversation) -> CompactionConfig:
    """The section of the agent that speaks; it was validated when the agent was resolved."""
    try:
        return talk.spec.config(SECTION, CompactionConfig)
    except KeyDecode:
        log.exception("agent %r: section %r is invalid; using defaults", talk.spec.id, SECTION)
        return CompactionConfig()


def _mishap(talk: LiveConversation, job: SummaryJob, reason: str) -> CompactionMishap:
    return CompactionMishap(
        task_id=job.task_id,
        boundary_message_id=job.boundary_message_id,
        reason=reason,
        at_ms=talk.clock.now_ms(),
    )
