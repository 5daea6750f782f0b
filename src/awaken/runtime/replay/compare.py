"""Finding the first difference between two recordings of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import msgspec

from awaken.codec import Json, dumps_text, to_json
from awaken.core.lifecycle import TerminationReason
from awaken.core.suspension import ResumeAction
from awaken.runtime.replay.recording import Recording
from awaken.runtime.replay.scene import Approval, RecordedStep


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference between two recordings, in lines of text.

    `step` counts the model's answers from 1. It is `None` for the end of the run and for approvals.
    """

    step: int | None = None
    was: tuple[str, ...]
    now: tuple[str, ...]


def first_difference(was: Recording, now: Recording, *, text: bool = True) -> Difference | None:
    """Returns the first difference, or `None`. Without `text`, only calls and the run's end
    count."""
    pairs = zip_longest(was.turns, now.turns)
    for step, (old, new) in enumerate(pairs, start=1):
        before, after = tuple(_turn(old, text)), tuple(_turn(new, text))
        if before != after:
            return Difference(step=step, was=before, now=after)
    for before, after in (
        (_approvals(was.approvals), _approvals(now.approvals)),
        (_end(was, text), _end(now, text)),
    ):
        if before != after:
            return Difference(was=before, now=after)
    return None


def agent_changes(was: Recording, now: Recording) -> tuple[str, ...]:
    """What has changed in the agent that spoke last: its prompt, its tools, both or neither."""
    if was.agents[-1] != now.agents[-1] or not was.fingerprint or not now.fingerprint:
        return ()
    before, after = was.fingerprint.split("|"), now.fingerprint.split("|")
    return tuple(
        part for part, a, b in zip(("prompt", "tools"), before, after, strict=False) if a != b
    )


def _turn(turn: RecordedStep | None, text: bool) -> Iterator[str]:
    if turn is None:
        return
    said = turn.answer.text()
    if text and said:
        yield from said.splitlines()
    for made in turn.calls:
        yield f"→ {call_line(made.tool, made.arguments)}"
        if made.text is not None:
            yield from (f"← {line}" for line in made.text.splitlines() or [""])
    if turn.failure is not None:
        yield f"✗ {turn.failure}"
    if not text and not turn.calls and turn.failure is None:
        yield "an answer"


def _approvals(approvals: Sequence[Approval]) -> tuple[str, ...]:
    return tuple(
        f"? {call_line(asked.tool, asked.arguments)}: "
        + ("yes" if asked.decision.action is ResumeAction.RESUME else "no")
        for asked in approvals
    )


def _end(run: Recording, text: bool) -> tuple[str, ...]:
    return (end_line(run.termination), *(run.response.splitlines() if text else ()))


def call_line(tool: str, arguments: Json) -> str:
    """A call in one line, such as `find_order(number=1042)`, with its arguments sorted by name."""
    arguments = _in_order(arguments)
    if isinstance(arguments, dict):
        words = ", ".join(f"{name}={dumps_text(value)}" for name, value in arguments.items())
    else:
        words = "" if arguments is None else dumps_text(arguments)
    return f"{tool}({words})"


def _in_order(value: Json) -> Json:
    if isinstance(value, list):
        return [_in_order(item) for item in value]
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return value


def end_line(end: TerminationReason) -> str:
    """How a run ended, in one line."""
    told = to_json(end)
    kind, value = told["type"], told.get("value")
    return (
        kind
        if value is None
        else f"{kind}: {value if isinstance(value, str) else dumps_text(value)}"
    )
