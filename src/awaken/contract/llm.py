"""Asking a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from awaken.domain.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.domain.inference import InferenceOverride, StopReason, TokenUsage
from awaken.domain.message import ContentBlock, Message
from awaken.domain.output import OutputFormat
from awaken.domain.tool import ToolDescriptor
from awaken.domain.value import Value
from awaken.errors import AwakenError


class RoutingKey(Value, frozen=True, kw_only=True):
    """Whose question it is; what goes with it stays with one model, or with one cache."""

    thread_id: str | None = None
    run_id: str | None = None


class InferenceRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One question to a model. `messages` is a view: copy it to keep it."""

    upstream_model: str
    messages: Sequence[Message]
    tools: tuple[ToolDescriptor, ...] = ()
    system: tuple[ContentBlock, ...] = ()
    overrides: InferenceOverride | None = None
    enable_prompt_cache: bool = False
    output: OutputFormat | None = None
    routing_key: RoutingKey | None = None


MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The most an answer may have, unless the agent's section `retry` says otherwise."""


class ContentBlockStop(Value, frozen=True, kw_only=True):
    """A block of text is over; what follows is a new one."""


class ReasoningDone(Value, frozen=True, kw_only=True):
    """A block of reasoning is over; what its provider, the `origin`, wants to see again of it.

    The text of the block is that of the deltas before.
    """

    origin: str
    id: str | None = None
    signature: str | None = None
    encrypted: str | None = None


class ToolCallSigned(Value, frozen=True, kw_only=True):
    """What the provider wants to see again of a call that was started."""

    id: str
    signature: str


class Usage(Value, frozen=True, kw_only=True):
    """What the call cost. Later ones replace what earlier ones said, field by field."""

    usage: TokenUsage


class Stop(Value, frozen=True, kw_only=True):
    """The model is done."""

    reason: StopReason | None = None


LlmStreamEvent = (
    TextDelta
    | ReasoningDelta
    | ReasoningDone
    | ToolCallStart
    | ToolCallDelta
    | ToolCallSigned
    | ContentBlockStop
    | Usage
    | Stop
)


class ModelAbilities(Value, frozen=True, kw_only=True):
    """What is known of a model; `None` where nobody knows.

    `native_output`: it keeps to a request's `output` by itself. `input`: the kinds of content it
    reads besides text, of `image`, `audio`, `video` and `document`.
    """

    native_output: bool = False
    input: frozenset[str] | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None


class LlmExecutor(Protocol):
    """A model that answers in pieces."""

    @property
    def name(self) -> str: ...

    def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        """The answer, piece by piece.

        Raises:
            InferenceExecutionError: while iterating; its class says whether asking again may help.
        """
        ...


class StreamSnapshot(Value, frozen=True, kw_only=True):
    """What has arrived of an answer: its text, calls that are whole, and one that is not; whether
    the model has said that this is all."""

    text: str = ""
    completed_calls: tuple[tuple[str, str, str], ...] = ()
    in_flight_call: tuple[str, str, str] | None = None
    ended: bool = False


def abilities_of(executor: object, upstream_model: str) -> ModelAbilities:
    """What an executor says a model can do, if it has `abilities(upstream_model)` to say it."""
    says: Callable[[str], ModelAbilities] | None = getattr(executor, "abilities", None)
    return says(upstream_model) if says is not None else ModelAbilities()


# -- errors -----------------------------------------------------------------------------------


class AnswerListener(Protocol):
    """The reader of a model's answer, as a `StreamDriver` sees it.

    It reads every stream the driver opens, and holds what has come of the answer so far.
    """

    max_bytes: int
    model_id: str | None
    seen: tuple[int, float, int]

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """The task that reads, if it may be cancelled to stop a stream."""

    @property
    def restored(self) -> bool:
        """Whether it began with what another process had read of the answer."""

    @property
    def progress(self) -> int:
        """A number that grows with everything that comes."""

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come of the current stream."""

    @property
    def is_wanted(self) -> bool:
        """Whether it is worth asking again for an answer that broke off."""

    def snapshot(self) -> StreamSnapshot: ...

    def look(self) -> bool:
        """Return whether something other than the model is waited for."""

    async def listen(self, stream: AsyncIterator[LlmStreamEvent]) -> None:
        """Read a stream to its end, or close it."""

    async def settle(self, cause: str) -> None:
        """Take the calls that are whole as the answer: no more will come."""

    async def go_on(self, cause: str) -> None:
        """Expect a stream that continues the text; drop a call that is not whole."""

    async def start_over(self, cause: str) -> None:
        """Expect a stream that is the whole answer."""

    async def afford(self, request: InferenceRequest, more: Sequence[Message]) -> InferenceRequest:
        """The next request, which has `more` messages than the first, within the budget.

        Raises:
            BudgetExhausted: there is not enough left for it.
        """


class StreamDriver(Protocol):
    """Opens the streams of a model, again if one breaks off, and leaves the reading to a listener.

    No wrapper then handles each event between a model and its reader.
    """

    @property
    def name(self) -> str: ...

    async def drive(self, request: InferenceRequest, listener: AnswerListener) -> None:
        """Have an answer listened to, asking as often as that takes.

        Raises:
            InferenceExecutionError: the answer could not be had.
            BudgetExhausted: there is not enough left to ask again.
        """


Asked = LlmExecutor | StreamDriver
"""What an agent asks for its answers: a model, or a wrapper that asks one or several models."""


class InferenceExecutionError(AwakenError):
    """A model call that failed."""

    prefix: ClassVar[str] = "provider error"
    retryable: ClassVar[bool] = False
    retry_after: float | None = None

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(f"{self.prefix}: {message}" if message else self.prefix)
        self.message = message
        self.retry_after = retry_after


class ProviderError(InferenceExecutionError):
    """The provider failed; asking again may help."""

    retryable = True


class RateLimited(InferenceExecutionError):
    """Too many requests."""

    prefix, retryable = "rate limited", True


class Overloaded(InferenceExecutionError):
    """The provider is short of capacity."""

    prefix, retryable = "provider overloaded", True


class InferenceTimeout(InferenceExecutionError):
    """No answer in time."""

    prefix, retryable = "timeout", True


class StreamInterrupted(InferenceExecutionError):
    """The stream broke off in the middle."""

    retryable = True

    def __init__(self, cause: str, snapshot: StreamSnapshot | None = None) -> None:
        super().__init__()
        self.args = (f"stream interrupted ({cause})",)
        self.message = self.cause = cause
        self.snapshot = snapshot or StreamSnapshot()


class ContextOverflow(InferenceExecutionError):
    """The conversation does not fit the model."""

    prefix = "context overflow"


class InvalidRequest(InferenceExecutionError):
    """The provider does not understand the request."""

    prefix = "invalid request"


class Unauthorized(InferenceExecutionError):
    """The key is missing, wrong, or not allowed to."""

    prefix = "unauthorized"


class ModelMissing(InferenceExecutionError):
    """The provider has no such model."""

    prefix = "model not found"


class ContentFiltered(InferenceExecutionError):
    """The provider refuses the content."""

    prefix = "content filtered"


class AnswerTooLarge(InferenceExecutionError):
    """A model's answer is larger than it may be; `limit` is the most, in bytes."""

    prefix = "answer too large"

    def __init__(self, limit: int, what: str = "the answer", change: str = "") -> None:
        super().__init__(f"{what} has more than {limit} bytes{f': {change}' if change else ''}")
        self.limit = limit


class AllModelsUnavailable(InferenceExecutionError):
    """No member of a pool can be asked."""

    prefix = "all models unavailable"


class PoolAttemptsExhausted(InferenceExecutionError):
    """Every member of a pool was asked."""

    prefix = "pool attempts exhausted"


class InferenceCancelled(InferenceExecutionError):
    """The run was cancelled while the model was asked."""

    prefix = "cancelled"
