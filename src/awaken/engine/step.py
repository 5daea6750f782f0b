"""One step: ask the model, then carry out its tool calls."""

from __future__ import annotations

from enum import Enum

import msgspec

from awaken.core.agent_services import ToolSource
from awaken.core.deps import RunInfo
from awaken.core.event import StepStart, StreamReset, ToolCallReady
from awaken.core.inference import InferenceError, LLMResponse, StopReason
from awaken.core.lifecycle import CANCELLED, Blocked, Phase, TerminationReason
from awaken.core.llm import AnswerTooLarge, ContentFiltered
from awaken.core.message import Message, Role, Text
from awaken.core.spec import ConsecutiveErrors
from awaken.core.state.run_keys import ACTIVE_AGENT, AGENT_OVERLAYS, PutOverlay
from awaken.engine.checkpoint import check_termination
from awaken.engine.context_window import run_compactor
from awaken.engine.inference import Answer, ask_model, drop_announced_calls
from awaken.engine.live_run import LiveRun
from awaken.engine.spending import ask_for_more, build_budget_stop, check_price, reserve_step
from awaken.engine.step_calls import StepCalls
from awaken.engine.tool_calls import carry_out
from awaken.errors import AwakenError, BudgetExhausted, Cancelled, InferenceFailed

# Module constants, because on Python 3.11 reading an enum member costs as much as a function call.
_STEP_START, _BEFORE_INFERENCE = Phase.STEP_START, Phase.BEFORE_INFERENCE
_AFTER_INFERENCE = Phase.AFTER_INFERENCE
_ASSISTANT = Role.ASSISTANT
_AGENT_KEYS = frozenset((ACTIVE_AGENT.name, AGENT_OVERLAYS.name))

MALFORMED = (
    "Some tool calls in your last answer were not valid JSON and were not executed. "
    "Issue them again, one at a time and with complete arguments."
)


ONLY_MALFORMED = "[This answer held nothing but tool calls that were not valid JSON]"
"""Logged in place of such an answer, so that the message id announced for it is in the log."""


class Outcome(Enum):
    """How the run goes on after a step that did not end it."""

    CONTINUE = "continue"
    NATURAL_END = "natural_end"
    SUSPENDED = "suspended"


_CONTINUE, _SUSPENDED = Outcome.CONTINUE, Outcome.SUSPENDED


async def step(run: LiveRun) -> Outcome | TerminationReason:
    """Take one step; the caller closes and commits it. Returns how the run goes on or ends.

    Raises:
        InferenceFailed: the model could not be asked, or gave no whole answer.
        StateError: a hook, gate or command failed.
    """
    try:
        if may_switch(run) and (refusal := await switch_agent(run)):
            return refusal
        if run.agent.spec.context_policy is not None:
            run_compactor(run)
        if run.reservation is not None and (short := await _affords(run)):
            return short
        run.enter_step()
        start = StepStart(message_id=run.message_id, agent_id=run.agent.spec.id)
        if (begun := run.journal.begin(start)) is not None:
            await run.journal.send(begun)
        run.check_token()
        if (run.is_busy(_STEP_START) or run.is_busy(_BEFORE_INFERENCE)) and (
            end := await _before_the_model(run)
        ):
            return end
        answer = await ask_model(run)
        if not answer.is_whole():
            return await _break_off(run, answer)
        if run.is_busy(_AFTER_INFERENCE) and (end := await _after_the_model(run, answer)):
            return end
        return await _act(run, answer)
    except Cancelled:
        return CANCELLED
    finally:
        if run.reservation is not None:
            run.reservation.drop()


async def _affords(run: LiveRun) -> Outcome | TerminationReason | None:
    """Reserve the step's budget. Returns how the run goes on if too little is left, else `None`."""
    try:
        await reserve_step(run)
    except BudgetExhausted as error:
        return _short(run, error)
    return None


def _short(run: LiveRun, error: BudgetExhausted) -> Outcome | TerminationReason:
    """Ask an approver for more budget if the limit says so, else end the run."""
    if not error.asks:
        return build_budget_stop(error)
    ask_for_more(run, error)
    return _SUSPENDED


async def _before_the_model(run: LiveRun) -> TerminationReason | None:
    """Run the phases before the model is asked. Returns how the run ends if a hook has ended it,
    else `None`."""
    for phase in (_STEP_START, _BEFORE_INFERENCE):
        if run.is_busy(phase):
            await run.phase(phase)
            if end := check_termination(run.state):
                return end
    return None


async def _after_the_model(run: LiveRun, answer: Answer) -> TerminationReason | None:
    """Let hooks see the answer. Returns how the run ends if a hook has ended it, else `None`.

    If a hook ends the run or fails, the answer is logged without its calls, which are not made.
    """
    try:
        response = LLMResponse(success=answer.result)
        await run.phase(_AFTER_INFERENCE, llm_response=response, offered_tools=answer.offered)
    except BaseException as error:
        if isinstance(error, Exception):
            await drop_announced_calls(run, f"a hook failed: {error}")
        _say(run, answer, calls=False)
        raise
    end = check_termination(run.state)
    if end is not None:
        await drop_announced_calls(run, "the run stopped before its calls were made")
        _say(run, answer, calls=False)
    return end


async def _break_off(run: LiveRun, answer: Answer) -> Outcome | TerminationReason:
    """Log an interrupted answer as far as it arrived. Returns how the run goes on or ends."""
    failure = answer.failure
    if failure is not None and isinstance(failure.__cause__, ContentFiltered | AnswerTooLarge):
        # Not logged: with this text in the conversation, later requests could be refused as well.
        run.open_answer = run.announced_answer = (
            None  # a follower that joins later is shown none of it
        )
        await run.journal.send_transient(StreamReset(reason=str(failure.__cause__)))
    else:
        await drop_announced_calls(run, _why(answer))
        _say(run, answer, calls=False)
    if failure is not None:
        return await _after_failure(run, failure)
    return _short(run, answer.short) if answer.short is not None else CANCELLED


def _why(answer: Answer) -> str:
    """Why an answer was interrupted, as the reason of `ToolCallCancel` events."""
    if answer.cancelled:
        return "the run was cancelled"
    return str(answer.short or answer.failure)


async def _act(run: LiveRun, answer: Answer) -> Outcome | TerminationReason:
    """Log the answer and carry out its calls. Returns how the run goes on or ends."""
    result, journal = answer.result, run.journal
    if result.has_incomplete_tool_calls:
        kept = {call.id for call in result.tool_calls}
        await drop_announced_calls(run, "it was not valid JSON", kept)
    run.announced_answer, now = None, run.clock.now_ms()
    for call in result.tool_calls:
        event = ToolCallReady(id=call.id, name=call.name, arguments=call.arguments)
        if (ready := journal.begin(event, now)) is not None:
            await journal.send(ready)
    _say(run, answer, now)
    garbled = result.has_incomplete_tool_calls and result.stop_reason is not StopReason.MAX_TOKENS
    if not result.tool_calls:
        if not garbled:
            return Outcome.NATURAL_END
        run.transcript.append(Message.internal_user(MALFORMED, id=run.ids.new()))
        return _CONTINUE
    step = StepCalls(run.message_id, result.tool_calls, {})
    await carry_out(run, step, range(len(result.tool_calls)))
    if result.has_incomplete_tool_calls:
        run.transcript.append(Message.internal_user(MALFORMED, id=run.ids.new()))
    run.check_token()
    if step.blocked is not None:
        return Blocked(value=step.blocked)
    if end := check_termination(run.state):
        return end
    return _SUSPENDED if step.suspended else _CONTINUE


def _say(run: LiveRun, answer: Answer, at_ms: int | None = None, calls: bool = True) -> None:
    """Log the model's answer, with or without its calls, and queue its `InferenceComplete` event.

    Every ending of a step calls this, so that the log has the text a client has already shown.
    """
    result, journal = answer.result, run.journal
    wanted = (result.tool_calls or None) if calls else None
    content = result.content
    if calls and result.has_incomplete_tool_calls and not (content or wanted):
        content = (Text(text=ONLY_MALFORMED),)
    if answer.told is not None and answer.failure is None:
        journal.note(answer.told, at_ms)
    if answer.before:
        _say_before(run, answer, goes_on=bool(content or wanted))
    if content or wanted is not None:
        if run.requests is not None and answer.sent is not None:
            run.requests.keep(run.message_id, answer.sent)
        run.transcript.append(
            Message(
                id=run.message_id,
                role=_ASSISTANT,
                content=content,
                tool_calls=wanted,
                metadata=run.metadata,
            )
        )


def _say_before(run: LiveRun, answer: Answer, *, goes_on: bool) -> None:
    """Log the earlier pieces of an answer that reached the output limit.

    They end with the message that asks the model to continue. It is logged only if more text or
    calls came after it (`goes_on`).
    """
    said, requests = answer.before, iter(answer.sent_before)
    for message in said if goes_on else said[:-1]:
        if message.role is _ASSISTANT:
            sent = next(requests, None)
            if run.requests is not None and sent is not None:
                run.requests.keep(message.id or "", sent)
        run.transcript.append(message)
    run.text_before_limit = "".join(m.last_text() for m in said if m.role is _ASSISTANT)


async def _after_failure(run: LiveRun, error: InferenceFailed) -> Outcome | TerminationReason:
    """Let hooks see the error. The run goes on if the agent's stop conditions tolerate errors.

    Raises:
        InferenceFailed: they do not.
    """
    cause = error.__cause__
    failure = InferenceError(
        type="inference_error", message=str(error), error_class=type(cause).__name__
    )
    await run.phase(_AFTER_INFERENCE, llm_response=LLMResponse(error=failure))
    if end := check_termination(run.state):
        return end
    if any(isinstance(c, ConsecutiveErrors) and c.max > 0 for c in run.agent.spec.stop_conditions):
        return _CONTINUE
    raise error


def may_switch(run: LiveRun) -> bool:
    """Whether the state may name another agent or overlay than the current ones."""
    return run.agent.overlay is not None or run.state.has_any(_AGENT_KEYS)


async def switch_agent(run: LiveRun) -> Blocked | None:
    """Switch to the agent and overlay that the state names, if they differ from the current ones.

    Returns `Blocked` if that agent cannot be used; else, and without a change, `None`.
    """
    old, mine = run.agent, run.agent.spec.id
    wanted = run.state.read(ACTIVE_AGENT) or mine
    overlays = run.state.read(AGENT_OVERLAYS)
    overlay = overlays.get(wanted) if overlays else None
    if wanted == mine and (overlay is old.overlay or overlay == old.overlay):
        return None
    try:
        agent = run.agents.get(wanted)
        if agent is None:
            agent = run.setup.services.resolver.resolve(wanted)
            agent.env.bind(run.state, run.controls.owner_inbox)
            if ToolSource in agent.env.services:
                identity = run.identity
                info = RunInfo.of(
                    wanted, identity.thread_id, identity.run_id, run.setup.first_commit.request
                )
                with run.until_cancelled:
                    agent = await agent.with_offered(info)
        run.use(agent)
        if overlay is not None:
            run.agent = run.agent.with_overlay(overlay, run.setup.services.resolver)
        check_price(run)
        if wanted != old.spec.id:
            old.env.deactivate(run.state)
            agent.env.activate(run.state, run.agent.spec)
            run.identity = msgspec.structs.replace(run.identity, agent_id=wanted)
    except Cancelled:
        raise
    except AwakenError as error:
        # The state names the old agent again: else every later run of the thread would be blocked.
        run.agent, run.profile = old, old.env.profile_access(run.setup.services.profiles)
        run.state.update(ACTIVE_AGENT, old.spec.id)
        if overlay is not None:
            run.state.update(AGENT_OVERLAYS, PutOverlay(agent=wanted))
        return Blocked(value=f"handoff resolve failed: {error}")
    return None
