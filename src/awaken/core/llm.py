"""Calling a model: the request, the events of its stream, executors, and their errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from awaken.codec import Json
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import InferenceOverride, OutputFormat, StopReason, TokenUsage
from awaken.core.message import (
    BlobSource,
    Citation,
    ContentBlock,
    InlineSource,
    MediaSource,
    Message,
    Opaque,
)
from awaken.core.tool import ToolDescriptor
from awaken.core.value import Value
from awaken.errors import AwakenError, NoPreview


class RoutingKey(Value, frozen=True, kw_only=True):
    """The thread and run of a request; a router keeps equal keys on one model or prompt cache."""

    thread_id: str | None = None
    run_id: str | None = None


class InferenceRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request to a model. `messages` is a view that changes later: copy it to keep it."""

    upstream_model: str
    messages: Sequence[Message]
    tools: tuple[ToolDescriptor, ...] = ()
    system: tuple[ContentBlock, ...] = ()
    overrides: InferenceOverride | None = None
    enable_prompt_cache: bool = False
    output: OutputFormat | None = None
    routing_key: RoutingKey | None = None


MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The size limit of an answer, unless the agent's section `retry` sets another."""


class ContentBlockStop(Value, frozen=True, kw_only=True):
    """A block of text has ended; later text belongs to a new block."""


class ReasoningDone(Value, frozen=True, kw_only=True):
    """A block of reasoning has ended; its text came in the deltas before.

    `origin` is the provider. The other fields are what that provider wants back with the block in
    later requests.
    """

    origin: str
    id: str | None = None
    signature: str | None = None
    encrypted: str | None = None


class ToolCallSigned(Value, frozen=True, kw_only=True):
    """The signature that the provider wants back with a tool call in later requests."""

    id: str
    signature: str


class Usage(Value, frozen=True, kw_only=True):
    """The token usage of the request. A later event replaces an earlier one field by field."""

    usage: TokenUsage


class Stop(Value, frozen=True, kw_only=True):
    """The answer is complete."""

    reason: StopReason | None = None


LlmStreamEvent = (
    TextDelta
    | ReasoningDelta
    | ReasoningDone
    | ToolCallStart
    | ToolCallDelta
    | ToolCallSigned
    | ContentBlockStop
    | Opaque
    | Citation
    | Usage
    | Stop
)


class ModelAbilities(Value, frozen=True, kw_only=True):
    """The declared abilities of a model; `None` means unknown.

    `native_output`: the provider enforces a request's `output` format (structured output).
    `input`: the kinds of content it reads besides text: `image`, `audio`, `video`, `document`.
    """

    native_output: bool = False
    input: frozenset[str] | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None


class LlmExecutor(Protocol):
    """A model that streams its answers."""

    @property
    def name(self) -> str: ...

    def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        """The events of the answer's stream.

        Raises:
            InferenceExecutionError: while iterating; its class says whether a retry may help.
        """
        ...


class StreamSnapshot(Value, frozen=True, kw_only=True):
    """The part of an answer that has arrived: its text, the complete tool calls, and an incomplete
    one.

    A call is its id, name and arguments as text. `ended` means that the model has sent its stop.
    """

    text: str = ""
    completed_calls: tuple[tuple[str, str, str], ...] = ()
    in_flight_call: tuple[str, str, str] | None = None
    ended: bool = False


def abilities_of(executor: object, upstream_model: str) -> ModelAbilities:
    """The abilities an executor declares for a model by its method `abilities`, if it has one."""
    says: Callable[[str], ModelAbilities] | None = getattr(executor, "abilities", None)
    return says(upstream_model) if says is not None else ModelAbilities()


def preview_of(executor: object, request: InferenceRequest) -> Json:
    """The body that an executor would send to its provider, without the key, as its method
    `preview` gives it.

    Raises:
        NoPreview: the executor has no such method.
        InvalidRequest: the provider cannot take a part of the request.
    """
    shows: Callable[[InferenceRequest], Json] | None = getattr(executor, "preview", None)
    if shows is None:
        raise NoPreview(getattr(executor, "name", type(executor).__name__))
    return shows(request)


# -- errors -----------------------------------------------------------------------------------


class AnswerListener(Protocol):
    """The reader of a model's answer, as a `StreamDriver` sees it.

    It reads every stream the driver opens, and holds what has arrived of the answer so far.
    `seen` belongs to the driver's idle timer: the progress at its last check, the time since which
    there was no more, and the task's `cancelling()` count then. `asked` is the request of the
    stream that is read, which a driver may have changed.
    """

    asked: InferenceRequest | None
    model_id: str | None
    seen: tuple[int, float, int]

    @property
    def max_bytes(self) -> int:
        """How large the answer may be."""

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """The task that reads the stream, if the driver may cancel it to stop the stream."""

    @property
    def restored(self) -> bool:
        """Whether the answer begins with what another process had received of it."""

    @property
    def progress(self) -> int:
        """A number that grows with every event received."""

    @property
    def is_silent(self) -> bool:
        """Whether the current stream has sent no event yet."""

    @property
    def is_wanted(self) -> bool:
        """Whether an answer whose stream broke off should be requested again."""

    def limit_to(self, max_bytes: int) -> None:
        """Refuse an answer of more than `max_bytes`."""

    def snapshot(self) -> StreamSnapshot: ...

    def poll(self) -> bool:
        """Whether the reader waits for something other than the model, such as a slow sink."""

    async def listen(self, stream: AsyncIterator[LlmStreamEvent]) -> None:
        """Read a stream to its end, or close it."""

    async def accept_calls(self, cause: str) -> None:
        """End the answer with the complete tool calls; no further stream will be opened."""

    async def continue_text(self, cause: str) -> None:
        """Expect a stream that continues the text; an incomplete tool call is dropped."""

    async def start_over(self, cause: str) -> None:
        """Drop everything received; expect a stream with the whole answer."""

    def note_failure(self, request: InferenceRequest, error: AwakenError) -> None:
        """Called when a request has failed; another one may follow."""

    async def afford(self, request: InferenceRequest, more: Sequence[Message]) -> InferenceRequest:
        """Reserve budget for the next request, which has `more` messages than the first.

        Returns the request, with its output limit lowered to what the budget allows.

        Raises:
            BudgetExhausted: too little is left for the request.
        """


class StreamDriver(Protocol):
    """Opens the streams of a model, again if one breaks off, and lets a listener read them.

    So retries and pools need no wrapper that passes on every single event.
    """

    @property
    def name(self) -> str: ...

    async def drive(self, request: InferenceRequest, listener: AnswerListener) -> None:
        """Request an answer, as often as needed, and have the listener read its streams.

        Raises:
            InferenceExecutionError: no attempt gave an answer.
            BudgetExhausted: too little is left for another request.
        """


AnswerSource = LlmExecutor | StreamDriver
"""The source of an agent's answers: a model, or a driver that calls one or several models."""


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
    """The provider failed; a retry may help."""

    retryable = True


class RateLimited(InferenceExecutionError):
    """The provider refused the request because there were too many."""

    prefix, retryable = "rate limited", True


class Overloaded(InferenceExecutionError):
    """The provider is short of capacity."""

    prefix, retryable = "provider overloaded", True


class InferenceTimeout(InferenceExecutionError):
    """The answer, or its next part, did not come in time."""

    prefix, retryable = "timeout", True


class StreamInterrupted(InferenceExecutionError):
    """The stream broke off before its end; `snapshot` is what had arrived."""

    retryable = True

    def __init__(self, cause: str, snapshot: StreamSnapshot | None = None) -> None:
        super().__init__()
        self.args = (f"stream interrupted ({cause})",)
        self.message = self.cause = cause
        self.snapshot = snapshot or StreamSnapshot()


class ContextOverflow(InferenceExecutionError):
    """The request is larger than the model's context window."""

    prefix = "context overflow"


class InvalidRequest(InferenceExecutionError):
    """The provider refused the request as malformed."""

    prefix = "invalid request"


class Unauthorized(InferenceExecutionError):
    """The API key is missing, wrong, or not allowed to do this."""

    prefix = "unauthorized"


class NoCredit(Unauthorized):
    """The account has no money left."""

    prefix = "no credit"


class ModelMissing(InferenceExecutionError):
    """The provider has no such model."""

    prefix = "model not found"


class ContentFiltered(InferenceExecutionError):
    """The provider refused the content of the request or of the answer."""

    prefix = "content filtered"


class AnswerTooLarge(InferenceExecutionError):
    """A model's answer is larger than `limit` bytes."""

    prefix = "answer too large"

    def __init__(self, limit: int, what: str = "the answer", change: str = "") -> None:
        super().__init__(f"{what} has more than {limit} bytes{f': {change}' if change else ''}")
        self.limit = limit


class AllModelsUnavailable(InferenceExecutionError):
    """No model of a pool can be called now."""

    prefix = "all models unavailable"


class PoolAttemptsExhausted(InferenceExecutionError):
    """Every model of a pool was called, and every call failed."""

    prefix = "pool attempts exhausted"


class InferenceCancelled(InferenceExecutionError):
    """The run was cancelled during the model call."""

    prefix = "cancelled"


def inline_source(source: MediaSource) -> InlineSource:
    """The source, for an adapter: the run loads blobs before a model is asked.

    Raises:
        InvalidRequest: it is a blob, in a request that was not made by a run.
    """
    if isinstance(source, BlobSource):
        raise InvalidRequest(
            f"{source.media_type} is in the blob {source.id}: read its bytes from the blob store, "
            "and put them into the request as a Base64Source"
        )
    return source
