"""Continuing an answer whose stream broke off, without losing or repeating any of it."""

from __future__ import annotations

import logging
import re
from enum import Enum

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.answer_stream import GO_ON
from awaken.core.llm import (
    AnswerListener,
    InferenceExecutionError,
    InferenceRequest,
    StreamDriver,
    StreamInterrupted,
    StreamSnapshot,
)
from awaken.core.message import Message
from awaken.models.idle_timeout import STALLED
from awaken.models.retry import LlmRetryPolicy
from awaken.models.wrapper import ExecutorWrapper, error_line

log = logging.getLogger("awaken.llm")
RESUMED = "resumed from checkpoint"
STALL_PAUSE = 0.2

# Compiled when a stream breaks, not when this module is imported.
_GOAWAY = r"(?i)go.?away"
_RESET = r"(?i)reset|broken pipe|closed|ended early|disconnect|eof"
_UNAVAILABLE = r"(?i)\b50[23]\b|bad gateway|unavailable"


class MendPlan(Enum):
    """How to recover from a broken stream: the reference's R1 to R4."""

    CONTINUE = "P1"
    USE_CALLS = "P2"
    DROP_CALL = "P3"
    START_OVER = "P4"


def plan_for(heard: StreamSnapshot) -> MendPlan:
    """The plan that fits what has arrived so far."""
    if heard.completed_calls:
        return MendPlan.USE_CALLS
    if not heard.text.strip():  # not every provider accepts an answer of only blanks
        return MendPlan.START_OVER
    return MendPlan.CONTINUE if heard.in_flight_call is None else MendPlan.DROP_CALL


def cause_of(error: InferenceExecutionError) -> str | None:
    """Why a stream broke, in a few words, or `None` if a retry cannot help."""
    if isinstance(error, StreamInterrupted):
        return error.cause
    if not error.retryable:
        return None
    text = str(error)
    if re.search(_GOAWAY, text):
        return "goaway"
    if re.search(_RESET, text) or not re.search(_UNAVAILABLE, text):
        return "connection reset"
    return "provider 503 mid-stream"


class MendingExecutor(ExecutorWrapper[StreamDriver]):
    """Continues answers whose stream breaks off.

    The model that is asked next, the same one or another of a pool, gets the answer so far.
    """

    def __init__(
        self,
        inner: StreamDriver,
        policy: LlmRetryPolicy,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(inner)
        self._policy = policy
        self._clock = clock

    async def drive(self, request: InferenceRequest, listener: AnswerListener) -> None:
        """Pass a whole answer to the listener.

        Raises:
            StreamInterrupted: the stream broke off too often.
            InferenceExecutionError: the model did not answer.
            BudgetExhausted: the budget is too small to continue.
        """
        asked: InferenceRequest | None = request
        mended = 0
        if listener.restored:
            asked = await self._continue_answer(request, listener, RESUMED)
        while asked is not None:
            try:
                return await self._inner.drive(asked, listener)
            except InferenceExecutionError as error:
                cause = cause_of(error)
                if cause is None or (listener.is_silent and cause != STALLED):
                    raise
                if not listener.is_wanted:
                    raise
                if listener.snapshot().ended:
                    return  # the answer was complete when the stream broke
                if mended >= self._policy.max_stream_retries:
                    raise StreamInterrupted(cause, listener.snapshot()) from error
                pause = STALL_PAUSE
                if cause != STALLED:
                    pause = self._policy.delay(mended, error)
                log.info(
                    "an answer of model %s broke off: %s; continued in %.1f s, retry %d of %d",
                    *(asked.upstream_model, error_line(error), pause, mended + 1),
                    self._policy.max_stream_retries,
                )
            asked = await self._continue_answer(request, listener, cause)
            mended += 1
            if asked is not None and pause:
                await self._clock.sleep(pause)

    async def _continue_answer(
        self, request: InferenceRequest, listener: AnswerListener, cause: str
    ) -> InferenceRequest | None:
        """The request that continues the answer, or `None` if the answer is complete as it is.

        Raises:
            BudgetExhausted: the budget is too small to ask again.
        """
        heard = listener.snapshot()
        plan = plan_for(heard)
        if request.output is not None and plan is not MendPlan.USE_CALLS:
            # Structured output is started over: half an object cannot be continued.
            plan = MendPlan.START_OVER
        match plan:
            case MendPlan.USE_CALLS:
                await listener.accept_calls(cause)
                return None
            case MendPlan.START_OVER:
                await listener.start_over(cause)
                return await listener.afford(request, ())
            case MendPlan.CONTINUE | MendPlan.DROP_CALL:
                await listener.continue_text(cause)
        said = (Message.assistant(heard.text), Message.internal_user(GO_ON))
        longer = msgspec.structs.replace(request, messages=[*request.messages, *said])
        return await listener.afford(longer, said)
