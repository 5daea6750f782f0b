"""Structured output: an answer that does not fit the schema goes back to the model."""

from __future__ import annotations

import msgspec

from awaken.codec import loads
from awaken.contract.output import AnswerCheck
from awaken.domain.lifecycle import NATURAL_END, Stopped, StoppedReason, TerminationReason
from awaken.domain.message import Message
from awaken.domain.output import OutputFormat
from awaken.domain.schema import validate_against_schema
from awaken.domain.tool import ToolError
from awaken.errors import RuntimeFailed, describe
from awaken.loop.live import LiveRun
from awaken.state.runtime_keys import OUTPUT_TRIES

OUTPUT_INVALID = "output_invalid"
DOES_NOT_FIT = "Your answer does not fit: "


def check_answer(run: LiveRun) -> TerminationReason | None:
    """Check the final answer against the agent's output format.

    Returns how the run ends, or `None` if the answer does not fit and the model is to be asked
    again: a message that says why is then added to the conversation.

    Raises:
        RuntimeFailed: the check of the agent's output type raised.
    """
    output = run.agent.spec.output
    if output is None:
        return NATURAL_END
    problem = _problem(run, output, run.response)
    if problem is None:
        return NATURAL_END
    tries = run.state.read(OUTPUT_TRIES) or 0
    if tries >= run.agent.spec.max_output_retries:
        return Stopped(value=StoppedReason(code=OUTPUT_INVALID, detail=problem))
    run.state.update(OUTPUT_TRIES, tries + 1)
    again = f"{DOES_NOT_FIT}{problem}. Give the whole answer again, corrected."
    run.transcript.append(Message.internal_user(again, id=run.ids.new()))
    return None


def _problem(run: LiveRun, output: OutputFormat, text: str) -> str | None:
    check = run.agent.env.services.get(AnswerCheck)
    if isinstance(check, AnswerCheck):
        try:
            return check.problem(text)
        except BaseException as error:
            why = f"the output type of agent {run.agent.spec.id!r} raised {type(error).__name__}"
            raise RuntimeFailed(f"{why}: {describe(error)}") from error
    return schema_problem(output, text)


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
