"""Structured output: an answer that does not fit the schema goes back to the model."""

from __future__ import annotations

import msgspec

from awaken.codec import loads
from awaken.core.agent_services import AnswerCheck
from awaken.core.aio.cancel import is_cancellation
from awaken.core.inference import OutputFormat
from awaken.core.lifecycle import (
    CANCELLED,
    NATURAL_END,
    Phase,
    Stopped,
    StoppedReason,
    TerminationReason,
)
from awaken.core.message import Message
from awaken.core.schema import validate_against_schema
from awaken.core.state.run_keys import FINAL_OUTPUT, OUTPUT_TRIES
from awaken.core.tool import ToolError
from awaken.engine.live_run import LiveRun
from awaken.errors import Cancelled, RuntimeFailed, describe

OUTPUT_INVALID = "output_invalid"
DOES_NOT_FIT = "Your answer does not fit: "


async def check_answer(run: LiveRun) -> TerminationReason | None:
    """Check the final answer against the agent's output format, and by the agent's own check.

    Returns how the run ends: also if it is cancelled during the check. Returns `None` if the answer
    does not fit and the model is to be asked again: a message that says why is then added to the
    conversation.

    Raises:
        RuntimeFailed: the check of the agent's output type, or its own check, raised.
    """
    output, check = run.agent.spec.output, run.agent.env.services.get(AnswerCheck)
    if output is None and check is None:
        return NATURAL_END
    text = run.answer_text
    if isinstance(check, AnswerCheck):
        try:
            problem = await _find_problem(run, check, text)
        except Cancelled:
            return CANCELLED
    else:
        problem = schema_problem(output, text) if output is not None else None
    if problem is None:
        return NATURAL_END
    tries = run.state.read(OUTPUT_TRIES) or 0
    if tries >= run.agent.spec.max_output_retries:
        return Stopped(value=StoppedReason(code=OUTPUT_INVALID, detail=problem))
    run.state.update(OUTPUT_TRIES, tries + 1)
    again = f"{DOES_NOT_FIT}{problem}. Give the whole answer again, corrected."
    run.transcript.append(Message.internal_user(again, id=run.ids.new()))
    return None


async def _find_problem(run: LiveRun, check: AnswerCheck, text: str) -> str | None:
    """Returns the problem that the agent's check has found in an answer, or `None`. If the check
    changes the answer, the changed one goes into the state, and so into the run's last commit.

    Raises:
        Cancelled: the run was cancelled.
        RuntimeFailed: the check raised.
    """
    whose = "the output type"
    try:
        problem = check.problem(text)
        if problem is not None:
            return problem
        changed: str | None = None
        if check.review is not None:
            whose = "output_check"
            with run.until_cancelled:
                changed = await check.review(run.context(Phase.STEP_END), text)
    except ToolError as error:
        return error.message
    except Cancelled:
        raise
    except BaseException as error:
        if is_cancellation(error):
            raise
        why = f"{whose} of agent {run.agent.spec.id!r} raised {type(error).__name__}"
        raise RuntimeFailed(f"{why}: {describe(error)}") from error
    before = run.state.read(FINAL_OUTPUT)
    if changed is not None or before:
        run.state.update(FINAL_OUTPUT, changed or "")
    return None


def schema_problem(output: OutputFormat, text: str) -> str | None:
    """Why the text is not JSON that fits the schema, or `None` if it is."""
    try:
        value = loads(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"it is not JSON ({error})"
    try:
        validate_against_schema(output.schema, value)
    except ToolError as error:
        return error.message
    return None
