"""Asking the model: building the request, reading the stream, and continuing a cut-off answer."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Collection, Sequence

import msgspec

from awaken.core.agent_services import PromptSource
from awaken.core.aio.cancel import is_cancellation
from awaken.core.answer_builder import total_usage
from awaken.core.answer_stream import drive_of
from awaken.core.context_message import ContextMessage, place
from awaken.core.event import InferenceComplete, StepStart, ToolCallCancel
from awaken.core.inference import InferenceOverride, StreamResult, TokenUsage
from awaken.core.lifecycle import Phase
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, Role, Text
from awaken.core.state.run_keys import EMPTY_TWICE
from awaken.core.state.step_keys import (
    CONTEXT_MESSAGES,
    INFERENCE_OVERRIDE,
    TOOL_FILTER,
    AfterEmit,
    ClearFilter,
)
from awaken.core.tool import ToolDescriptor
from awaken.engine.context_window import Context, context_of
from awaken.engine.large_content import with_media
from awaken.engine.live_answer import LiveAnswer
from awaken.engine.live_run import LiveRun, wait_for_lease
from awaken.engine.request_log import SentRequest
from awaken.engine.spending import at_most, reserve_step
from awaken.errors import (
    BudgetExhausted,
    Cancelled,
    HookFailed,
    InferenceFailed,
    StorageError,
    name_of,
    type_of,
)

log = logging.getLogger("awaken.loop")
_BEFORE_INFERENCE = Phase.BEFORE_INFERENCE
_STEP_KEYS = frozenset(key.name for key in (CONTEXT_MESSAGES, INFERENCE_OVERRIDE, TOOL_FILTER))
_FREE_CHOICES = (None, "auto", "none")
_NO_CONTEXT: Sequence[ContextMessage] = ()
_replace = msgspec.structs.replace

CONTINUE = (
    "Your answer was cut off because it reached the output limit. Go on exactly where it stopped, "
    "without repeating anything, and in smaller pieces."
)


class Answer(msgspec.Struct):
    """A model's answer, and the error that interrupted it, if one did.

    `before` holds the earlier pieces of an answer that reached the output limit, each with the
    message that asked the model to continue; `result` is the last piece. `sent` is the request that
    led to it, and `sent_before` those that led to the earlier pieces. `offered` are the tools of
    the request, `told` is the event about the answer. `cancelled`, `short` (too little budget) or
    `failure` says why the answer broke off.
    """

    result: StreamResult
    before: Sequence[Message] = ()
    sent: SentRequest | None = None
    sent_before: Sequence[SentRequest | None] = ()
    offered: tuple[ToolDescriptor, ...] = ()
    told: InferenceComplete | None = None
    model: str = ""
    cost: float | None = None
    cancelled: bool = False
    short: BudgetExhausted | None = None
    failure: InferenceFailed | None = None

    def is_whole(self) -> bool:
        """Whether the answer was not interrupted."""
        return not self.cancelled and self.short is None and self.failure is None


async def ask_model(run: LiveRun) -> Answer:
    """Ask the model to answer the conversation. Listeners get the deltas as they arrive.

    An interrupted answer is returned, too: see `Answer.is_whole`.

    Raises:
        InferenceFailed: the model name of an override is blank.
        HookFailed: a transform raised.
        StorageError: the store could not be asked for the rest of the budget.
    """
    services = run.agent.env.services
    request = build_request(run, await _write_prompt(run) if PromptSource in services else None)
    started = run.clock.monotonic()
    answer, empty = await _stream(run, request), None
    if answer.result.is_empty and answer.is_whole() and request.output is None:
        answer, empty = await _after_empty(run, request, answer), answer
    if run.agent.spec.context_policy is not None and (window := context_of(run)) is not None:
        request, answer = await _within(run, window, request, answer)
    if answer.result.needs_truncation_recovery:
        answer, usage, cost = await _beyond_the_limit(run, request, answer)
    else:
        usage, cost = answer.result.usage, answer.cost
    if empty is not None and empty is not answer:
        usage = total_usage(empty.result.usage, usage)
        cost = cost if empty.cost is None else empty.cost + (cost or 0.0)
    if run.reservation is not None:
        await run.reservation.publish()
    answer.told = InferenceComplete(
        model=answer.model or request.upstream_model,
        usage=usage,
        cost=cost,
        duration_ms=int((run.clock.monotonic() - started) * 1000),
    )
    return answer


async def _after_empty(run: LiveRun, request: InferenceRequest, empty: Answer) -> Answer:
    """Ask once more after an answer without text and calls. Returns the next answer, or the empty
    one if too little of the budget is left."""
    if not await _can_afford(run, ()):
        return empty
    log.info("run %s: the model's answer was empty, it is asked once more", run.identity.run_id)
    answer = await _stream(run, at_most(run, request))
    if answer.result.is_empty and answer.is_whole():
        log.warning("run %s: the model's answer was empty, twice", run.identity.run_id)
        run.state.update(EMPTY_TWICE, run.steps + 1)
    return answer


async def _beyond_the_limit(
    run: LiveRun, request: InferenceRequest, answer: Answer
) -> tuple[Answer, TokenUsage | None, float | None]:
    """Have the model continue an answer that reached the output limit, as often as the agent and
    the budget allow. Returns the answer, and the usage and cost of all its pieces."""
    retries, usage, cost = 0, answer.result.usage, answer.cost
    before: list[Message] = []
    sent_before: list[SentRequest | None] = []
    while (
        answer.result.needs_truncation_recovery
        and answer.is_whole()
        and retries < run.agent.spec.max_continuation_retries
    ):
        more = _to_go_on(run, answer.result)
        if not await _can_afford(run, [*before, *more]):
            break
        retries += 1
        before += more
        await drop_announced_calls(run, "the answer reached the output limit")
        if answer.result.content:
            sent_before.append(answer.sent)
            await _announce(run, run.ids.new())
        request = _extend_request(run, request, more)
        answer = await _stream(run, request)
        answer.before, answer.sent_before = before, sent_before
        usage = total_usage(usage, answer.result.usage)
        if answer.cost is not None:
            cost = answer.cost + (cost or 0.0)
    return answer, usage, cost


async def _within(
    run: LiveRun, window: Context, request: InferenceRequest, answer: Answer
) -> tuple[InferenceRequest, Answer]:
    """If the conversation was too long for the model, ask again with half of it.

    Returns the last request and its answer. The window learns from the tokens the provider counted.
    """
    if answer.failure is not None and not answer.result.content:
        shorter = window.harder(request, answer.failure.__cause__)
        if shorter is not request:
            await drop_announced_calls(run, "the model is asked again with less")
            request, answer = shorter, await _stream(run, shorter)
    if run.open_answer is None or not run.open_answer.is_mended():
        window.learn(answer.result.usage)
    return request, answer


async def _can_afford(run: LiveRun, more: Sequence[Message]) -> bool:
    """Reserve the budget for one more piece of an answer. Returns false if too little is left."""
    try:
        await reserve_step(run, *more, goes_on=True)
    except BudgetExhausted:
        return False
    return True


# -- the request ------------------------------------------------------------------------------


async def _write_prompt(run: LiveRun) -> str | None:
    """The text that the agent's prompt function writes for this step. Returns `None` if an overlay
    has set another prompt.

    Raises:
        HookFailed: the function raised, or returned no text.
    """
    agent = run.agent
    source = agent.env.services[PromptSource]
    overlay = agent.overlay
    if not isinstance(source, PromptSource) or (overlay and overlay.system_prompt is not None):
        return None
    try:
        with run.until_cancelled:
            written = source.write(run.context(_BEFORE_INFERENCE, cancellation_token=run.token))
            text = await written if inspect.isawaitable(written) else written
        if not isinstance(text, str):
            raise TypeError(
                f"agent {agent.spec.id!r}: the system_prompt function {name_of(source.write)} "
                f"returned {type_of(text)}: return a text"
            )
    except Cancelled:
        raise
    except BaseException as error:
        if is_cancellation(error):
            raise
        raise HookFailed("system_prompt", _BEFORE_INFERENCE, error) from error
    return text


def build_request(run: LiveRun, written: str | None = None) -> InferenceRequest:
    """The request with prompt, conversation and tools, as changed by this step's hooks. `written`
    is the text of a prompt function.

    Raises:
        InferenceFailed: the model name of an override is blank.
        HookFailed: a transform raised.
    """
    agent, chosen, run.cached_request = run.agent, _NO_CONTEXT, None
    is_plain, known = not run.state.has_any(_STEP_KEYS), run.usual_request
    if is_plain and known is not None and known[0] is agent and written is None:
        # The most frequent case.
        request = _replace(known[1], messages=run.transcript.view())
        if run.reservation is None:
            run.cached_request = known[1]
            return request
        return at_most(run, request)
    model, overrides, tools = agent.upstream_model, run.setup.overrides, agent.descriptors
    if not (
        is_plain
        and overrides is None
        and agent.spec.reasoning_effort is None
        and agent.spec.settings is None
    ):
        model, overrides = _overrides(run)
        tools, chosen = _list_offered_tools(run), _context_messages(run)
    policy = agent.spec.context_policy
    window = context_of(run) if policy is not None else None
    history = (
        run.transcript.view() if window is None else window.select_messages(model, tools, chosen)
    )
    messages: Sequence[Message] = place((), history, chosen, run.ids) if chosen else history
    for transform in agent.env.transforms:
        try:
            messages = transform.call(messages, tools)
        except BaseException as error:
            raise HookFailed(transform.plugin_id, Phase.BEFORE_INFERENCE, error) from error
    prompt = agent.spec.system_prompt if written is None else written
    request = InferenceRequest(
        upstream_model=model,
        messages=messages,
        tools=tools,
        system=(Text(text=prompt),) if prompt else (),
        overrides=overrides,
        enable_prompt_cache=policy is None or policy.enable_prompt_cache,
        output=agent.spec.output,
        routing_key=run.routing_key,
    )
    is_usual = is_plain and overrides is None and written is None and policy is None
    if is_usual and not agent.env.transforms:
        run.usual_request = agent, request
    return request if run.reservation is None else at_most(run, request)


def _overrides(run: LiveRun) -> tuple[str, InferenceOverride | None]:
    """The model and the parameters of the request. Those that the caller gave with the run have the
    last word, then those that hooks set for this step, then the agent's own."""
    step = run.state.read(INFERENCE_OVERRIDE)
    if step is not None and step.is_empty():
        step = None
    if step is not None:
        run.state.update(INFERENCE_OVERRIDE, None)
    spec = run.agent.spec
    effort, own = spec.reasoning_effort, spec.settings
    if effort is None and own is None and run.setup.overrides is None and step is None:
        return run.agent.upstream_model, None
    merged = InferenceOverride(reasoning_effort=effort)
    for layer in (own, step, run.setup.overrides):
        if layer is not None:
            merged = merged.merge(layer)
    if merged.tool_choice not in _FREE_CHOICES and _has_called(run):
        merged = _replace(merged, tool_choice=None)
    model = merged.upstream_model
    if model is None:
        return run.agent.upstream_model, merged
    if not model.strip():
        raise InferenceFailed("inference override upstream_model cannot be empty")
    return model, _replace(merged, upstream_model=None)


def _has_called(run: LiveRun) -> bool:
    """Whether the model has called a tool since the last user message: it is not forced again."""
    for message in reversed(run.transcript.view()):
        if message.tool_calls:
            return True
        if message.is_visible_user():
            return False
    return False


def _context_messages(run: LiveRun) -> Sequence[ContextMessage]:
    context = run.state.read(CONTEXT_MESSAGES)
    if not context:
        return ()
    run.state.update(CONTEXT_MESSAGES, AfterEmit())
    return sorted(context.values(), key=lambda entry: entry.sort_key)


def _list_offered_tools(run: LiveRun) -> tuple[ToolDescriptor, ...]:
    chosen = run.state.read(TOOL_FILTER)
    if chosen is None or not (chosen.excluded or chosen.include_only):
        return run.agent.descriptors
    run.state.update(TOOL_FILTER, ClearFilter())
    return tuple(d for d in run.agent.descriptors if chosen.passes(d.id))


# -- the stream -------------------------------------------------------------------------------


async def _stream(run: LiveRun, request: InferenceRequest) -> Answer:
    heard = run.open_answer = run.announced_answer = LiveAnswer(run)
    made = request
    if not run.controls.lease.held:
        await wait_for_lease(run)
    try:
        if run.has_blobs:
            request = await with_media(run, request)
        if run.stream_log or run.journal.keeps_streams:
            restored = heard.begin(_question(run, request))
            if restored is not None:
                await heard.send_restored(restored)
        with run.until_cancelled:
            await drive_of(run.agent.llm_executor)(request, heard)
        result = heard.finish()
    except StorageError:
        raise  # without the store it is unknown what is left of the budget
    except BaseException as error:
        if is_cancellation(error):
            raise
        heard.count()
        answer = _build_partial_answer(heard, Cancelled() if not heard.is_wanted else error)
        answer.sent = _build_sent_request(run, made, request, heard)
        return answer
    finally:
        if heard.stream_log is not None and heard.stream_log.is_writing:
            await heard.stream_log.wait_settled()
    heard.count(True)
    return Answer(
        result,
        offered=request.tools,
        model=heard.model_id or request.upstream_model,
        cost=heard.cost,
        sent=_build_sent_request(run, made, request, heard),
    )


def _build_sent_request(
    run: LiveRun, made: InferenceRequest, sent: InferenceRequest, heard: LiveAnswer
) -> SentRequest | None:
    """Build the record of the request that led to an answer. Returns `None` if requests are not
    stored, or if a process that died has made the request and has stored the complete answer."""
    if run.requests is None or (heard.asked is None and heard.restored):
        return None
    return SentRequest(
        made, sent, heard.asked or sent, heard.attempts, heard.first_ms, run.cached_request
    )


async def drop_announced_calls(run: LiveRun, reason: str, kept: Collection[str] = ()) -> None:
    """Send a `ToolCallCancel` for each call that was streamed and will not be made. The calls whose
    ids are in `kept` will be made."""
    heard, run.announced_answer = run.announced_answer, None
    dropped = heard.list_started_calls() if heard is not None else []
    if not dropped:
        return
    if run.open_answer is not None:
        run.open_answer.withdraw(id for id, _ in dropped if id not in kept)
    for id, name in dropped:
        if id not in kept:
            event = ToolCallCancel(id=id, name=name, reason=reason)
            if (begun := run.journal.begin(event)) is not None:
                await run.journal.send(begun)


def _build_partial_answer(heard: LiveAnswer, error: BaseException) -> Answer:
    """Build an answer of the part that arrived, and the error that interrupted it."""
    answer = Answer(heard.finish_cancelled(), cost=heard.cost)  # the text, without calls
    match error:
        case Cancelled():
            answer.cancelled = True
        case BudgetExhausted():
            answer.short = error
        case _:
            answer.failure = InferenceFailed(error)
            answer.failure.__cause__ = error
    return answer


def _question(run: LiveRun, request: InferenceRequest) -> str:
    """The id of a request within the run: its model and the last message before it."""
    said = run.transcript.view()
    return f"{request.upstream_model} {said[-1].id if said else None}"


def _to_go_on(run: LiveRun, cut: StreamResult) -> list[Message]:
    """The messages that continue a cut-off answer: the piece that arrived, under the message id
    announced for it, and one that asks the model to continue."""
    said = [Message.internal_user(CONTINUE, id=run.ids.new())]
    if cut.content:
        piece = Message(
            id=run.message_id, role=Role.ASSISTANT, content=cut.content, metadata=run.metadata
        )
        said.insert(0, piece)
    return said


async def _announce(run: LiveRun, message_id: str) -> None:
    """Send a `StepStart` with the message id of the next piece of the answer."""
    run.message_id, run.open_answer = message_id, None
    event = StepStart(message_id=message_id, agent_id=run.agent.spec.id)
    if (begun := run.journal.begin(event)) is not None:
        await run.journal.send(begun)


def _extend_request(
    run: LiveRun, request: InferenceRequest, more: Sequence[Message]
) -> InferenceRequest:
    """The request with `more` messages, its answer limited to what was reserved for it."""
    messages, run.cached_request = [*request.messages, *more], None
    return at_most(run, _replace(request, messages=messages))
