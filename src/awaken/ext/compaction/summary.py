"""Making summaries beside the runs that want them: one a thread at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import msgspec

from awaken.contract.llm import InferenceRequest
from awaken.control.cancel import is_ours
from awaken.control.tasks import start_task
from awaken.domain.inference import InferenceOverride
from awaken.domain.message import Message, Text
from awaken.errors import AwakenError, describe
from awaken.ext.compaction.config import CompactionConfig
from awaken.ext.compaction.plan import CompactionPlan
from awaken.plugin.compactor import LiveConversation

DEADLINE = 300.0
"""Seconds after which a summary is given up."""
REMEMBERED = 1000
"""How many summaries that nobody has asked for yet are kept in mind."""

log = logging.getLogger("awaken.compaction")


class SummaryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A summary, or why there is none."""

    text: str = ""
    error: str | None = None


async def summarise(
    talk: LiveConversation, plan: CompactionPlan, config: CompactionConfig
) -> SummaryOutcome:
    """Ask a model for the summary that was planned."""
    try:
        async with asyncio.timeout(DEADLINE):
            answer = await talk.ask(_request(talk, plan, config), config.summary_model)
    except TimeoutError:
        return SummaryOutcome(error=f"there was no summary within {DEADLINE:g} seconds")
    except AwakenError as error:
        return SummaryOutcome(error=str(error))
    except BaseException as error:
        if is_ours(error):
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
    # A character is a token at worst; in what people write there are three or more to one.
    transcript = plan.transcript(max(1, room) * 3)
    return InferenceRequest(
        upstream_model="",
        system=(Text(text=config.summariser_system_prompt),),
        messages=(Message.user(config.prompt(plan.previous, transcript), id=talk.ids.new()),),
        overrides=InferenceOverride(max_tokens=config.summary_max_tokens),
    )


class SummaryJob:
    """A summary under way, or made; `task_id` is what its thread knows it by.

    Of the plan it keeps what is needed to the end: it may be long until somebody asks.
    """

    __slots__ = ("boundary_message_id", "future", "task_id", "tokens")

    def __init__(
        self, task_id: str, plan: CompactionPlan, future: asyncio.Future[SummaryOutcome]
    ) -> None:
        self.task_id, self.future = task_id, future
        self.boundary_message_id, self.tokens = plan.boundary_message_id, plan.tokens

    @property
    def is_lost(self) -> bool:
        """Whether nothing will come of it: it was cancelled, or its event loop is gone."""
        return self.future.cancelled() or (
            not self.future.done() and self.future.get_loop() is not asyncio.get_running_loop()
        )


class Jobs:
    """The summaries of this process, by thread. They belong to it, not to the runs."""

    def __init__(self) -> None:
        self._jobs: dict[str, SummaryJob] = {}

    def start(self, thread_id: str, task_id: str, plan: CompactionPlan, work: SummaryWork) -> None:
        """Make a summary; one that nobody has asked for since long is forgotten."""
        before = self._jobs.pop(thread_id, None)
        if before is not None and not before.is_lost:
            before.future.cancel()
        self._jobs[thread_id] = SummaryJob(task_id, plan, start_task(work))
        if len(self._jobs) > REMEMBERED:
            done = [thread for thread, job in self._jobs.items() if job.future.done()]
            for thread in done[: len(self._jobs) - REMEMBERED]:
                del self._jobs[thread]

    def find(self, thread_id: str, task_id: str) -> SummaryJob | None:
        """That summary of a thread, unless nothing will come of it."""
        job = self._jobs.get(thread_id)
        return None if job is None or job.task_id != task_id or job.is_lost else job

    def drop(self, thread_id: str) -> None:
        """Nobody wants to know any more."""
        self._jobs.pop(thread_id, None)

    async def close(self) -> None:
        """Give up all that are under way, and wait for it."""
        jobs, self._jobs = self._jobs, {}
        futures = [job.future for job in jobs.values() if not job.is_lost]
        for future in futures:
            future.cancel()
        if futures:
            await asyncio.wait(futures)


SummaryWork = Coroutine[Any, Any, SummaryOutcome]
