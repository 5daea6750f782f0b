"""Making summaries in the background: one for each thread at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import msgspec

from awaken.core.aio.cancel import is_cancellation
from awaken.core.aio.owned_tasks import start_task
from awaken.core.inference import InferenceOverride
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, Text
from awaken.errors import AwakenError, describe
from awaken.ext.compaction.config import CompactionConfig
from awaken.ext.compaction.plan import CompactionPlan
from awaken.plugin.compactor import LiveConversation

DEADLINE = 300.0
"""The most seconds that a summary may take."""
REMEMBERED = 1000
"""How many finished summaries are kept until a run of their thread uses them."""

log = logging.getLogger("awaken.compaction")


class SummaryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A summary, or why there is none."""

    text: str = ""
    error: str | None = None


async def summarise(
    talk: LiveConversation, plan: CompactionPlan, config: CompactionConfig
) -> SummaryOutcome:
    """Ask a model for the planned summary."""
    try:
        async with asyncio.timeout(DEADLINE):
            answer = await talk.ask(_request(talk, plan, config), config.summary_model)
    except TimeoutError:
        return SummaryOutcome(error=f"there was no summary within {DEADLINE:g} seconds")
    except AwakenError as error:
        return SummaryOutcome(error=str(error))
    except BaseException as error:
        if is_cancellation(error):
            raise
        log.exception("a summary for thread %s failed", talk.identity.thread_id)
        return SummaryOutcome(error=f"{type(error).__name__}: {describe(error)}")
    text = answer.text().strip()
    return SummaryOutcome(text=text) if text else SummaryOutcome(error="the summary was empty")


def _request(
    talk: LiveConversation, plan: CompactionPlan, config: CompactionConfig
) -> InferenceRequest:
    room = (
        talk.policy.max_context_tokens
        - config.summary_max_tokens
        - talk.counter.text(
            config.summariser_system_prompt + config.summariser_user_prompt + (plan.previous or "")
        )
    )
    # At worst a character is a token; in ordinary text a token is three characters or more.
    transcript = plan.transcript(max(1, room) * 3)
    return InferenceRequest(
        upstream_model="",
        system=(Text(text=config.summariser_system_prompt),),
        messages=(Message.user(config.prompt(plan.previous, transcript), id=talk.ids.new()),),
        overrides=InferenceOverride(max_tokens=config.summary_max_tokens),
    )


class SummaryJob:
    """A summary, finished or being made; its thread knows it as `task_id`.

    It keeps only those parts of the plan that are needed later: it may be long until a run uses it.
    """

    __slots__ = ("boundary_message_id", "future", "task_id", "tokens")

    def __init__(
        self, task_id: str, plan: CompactionPlan, future: asyncio.Future[SummaryOutcome]
    ) -> None:
        self.task_id, self.future = task_id, future
        self.boundary_message_id, self.tokens = plan.boundary_message_id, plan.tokens

    @property
    def is_lost(self) -> bool:
        """Whether it will never finish: it was cancelled, or its event loop was closed."""
        return self.future.cancelled() or (
            not self.future.done() and self.future.get_loop() is not asyncio.get_running_loop()
        )


class Jobs:
    """The summaries of this process, by thread. They go on when the run that started them ends."""

    def __init__(self) -> None:
        self._jobs: dict[str, SummaryJob] = {}

    def start(self, thread_id: str, task_id: str, plan: CompactionPlan, work: SummaryWork) -> None:
        """Start a summary. If too many are remembered, the oldest finished ones are dropped."""
        before = self._jobs.pop(thread_id, None)
        if before is not None and not before.is_lost:
            before.future.cancel()
        self._jobs[thread_id] = SummaryJob(task_id, plan, start_task(work))
        if len(self._jobs) > REMEMBERED:
            done = [thread for thread, job in self._jobs.items() if job.future.done()]
            for thread in done[: len(self._jobs) - REMEMBERED]:
                del self._jobs[thread]

    def find(self, thread_id: str, task_id: str) -> SummaryJob | None:
        """The summary with that id; `None` if it is unknown or will never finish."""
        job = self._jobs.get(thread_id)
        return None if job is None or job.task_id != task_id or job.is_lost else job

    def drop(self, thread_id: str) -> None:
        """Remove the summary of a thread."""
        self._jobs.pop(thread_id, None)

    async def close(self) -> None:
        """Cancel all unfinished summaries, and wait for their end."""
        jobs, self._jobs = self._jobs, {}
        futures = [job.future for job in jobs.values() if not job.is_lost]
        for future in futures:
            future.cancel()
        if futures:
            await asyncio.wait(futures)


SummaryWork = Coroutine[Any, Any, SummaryOutcome]
