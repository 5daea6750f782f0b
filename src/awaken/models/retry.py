"""Retrying a request to a model that could not be reached."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.answer_stream import UNSEEN
from awaken.core.llm import (
    MAX_ANSWER_BYTES,
    AnswerListener,
    InferenceExecutionError,
    InferenceRequest,
    LlmExecutor,
    Overloaded,
    StreamInterrupted,
)
from awaken.core.value import Value
from awaken.models.circuit_breaker import CircuitBreaker
from awaken.models.idle_timeout import STALLED, IdleTimeout, raise_stalled
from awaken.models.wrapper import ExecutorWrapper, error_line

if TYPE_CHECKING:
    from random import Random

log = logging.getLogger("awaken.llm")
MAX_BACKOFF_MS = 8000
_NEVER = sys.maxsize

RetryCount = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class LlmRetryPolicy(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often to retry and how long to wait; the section `retry` of an agent.

    `jitter` is the random share of each backoff, so that many clients of one provider do not retry
    at the same moment. `max_answer_bytes` limits an answer: its text, reasoning and arguments of
    calls, over all of its streams.
    """

    max_retries: RetryCount = 2
    backoff_base_ms: RetryCount = 500
    overloaded_backoff_base_ms: RetryCount = 2000
    max_stream_retries: RetryCount = 2
    stream_idle_timeout_secs: RetryCount = 60
    jitter: Share = 0.0
    max_answer_bytes: Annotated[int, Meta(ge=1)] = MAX_ANSWER_BYTES

    def delay(
        self, attempt: int, error: InferenceExecutionError, random: Random | None = None
    ) -> float:
        """Seconds to wait after the failed `attempt`, counted from 0.

        The backoff doubles up to eight seconds; a provider that asked for more time gets it.
        Jitter is drawn from `random`, by default from a new generator.
        """
        overloaded = isinstance(error, Overloaded)
        base = self.overloaded_backoff_base_ms if overloaded else self.backoff_base_ms
        backoff: float = min(base * 2 ** min(attempt, 16), MAX_BACKOFF_MS) / 1000
        if self.jitter:
            from random import Random  # noqa: PLC0415  # only a retry needs it

            backoff *= 1 - self.jitter * (random or Random()).random()
        return max(backoff, error.retry_after or 0.0)


class RetryingExecutor(ExecutorWrapper[LlmExecutor]):
    """Asks a model, and asks again if opening the stream fails.

    Once a stream has delivered anything, an error is raised to the caller: `MendingExecutor` knows
    how to continue a broken answer. A wait ends at once when the task is cancelled.

    Args:
        scope: a name, such as the provider's id; the breaker counts each upstream model within it.
        leaves: returns true for errors that the caller handles itself; they are not retried.
    """

    def __init__(
        self,
        inner: LlmExecutor,
        policy: LlmRetryPolicy,
        clock: Clock = SYSTEM_CLOCK,
        breaker: CircuitBreaker | None = None,
        scope: str = "",
        leaves: Callable[[InferenceExecutionError], bool] | None = None,
    ) -> None:
        super().__init__(inner)
        self._policy = policy
        self._clock = clock
        self._breaker = breaker or CircuitBreaker(threshold=_NEVER)
        self._scope = f"{scope}/" if scope else ""
        self._leaves = leaves
        self._watchman = IdleTimeout(clock, policy.stream_idle_timeout_secs)

    async def drive(self, request: InferenceRequest, listener: AnswerListener) -> None:
        """Ask for an answer and pass it to the listener; a stream that stalls is cut off.

        Raises:
            StreamInterrupted: the stream was silent for too long.
            AnswerTooLarge: the answer exceeds `max_answer_bytes`.
            InferenceExecutionError: the model did not answer.
        """
        model, attempt = f"{self._scope}{request.upstream_model}", 0
        if listener.max_bytes != self._policy.max_answer_bytes:
            listener.limit_to(self._policy.max_answer_bytes)
        while True:
            listener.asked = request
            try:
                with self._breaker.call(model):
                    streams = self._watchman.streams(listener.task)
                    streams[listener], listener.seen = request, UNSEEN
                    try:
                        return await listener.listen(self._inner.execute_stream(request))
                    finally:
                        if streams.pop(listener, None) is None:
                            raise_stalled(listener)
            except InferenceExecutionError as error:
                listener.note_failure(request, error)
                stalled = isinstance(error, StreamInterrupted) and error.cause == STALLED
                if stalled or not (listener.is_silent and listener.is_wanted):
                    raise
                if not self._may_ask_again(model, attempt, error):
                    raise
                delay = self._policy.delay(attempt, error)
                log.info(
                    "model %s failed: %s; asked again in %.1f s, retry %d of %d",
                    *(model, error_line(error), delay, attempt + 1, self._policy.max_retries),
                )
            attempt += 1
            if delay:
                await self._clock.sleep(delay)

    def _may_ask_again(self, model: str, attempt: int, error: InferenceExecutionError) -> bool:
        if not error.retryable or attempt >= self._policy.max_retries:
            return False
        if self._leaves is not None and self._leaves(error):
            return False
        # If this failure has just opened the circuit, it is raised: it says more than a refusal.
        return self._breaker.is_available(model)
