"""What is told while a run goes on: of this run, and nothing that its caller tells."""

from __future__ import annotations

from awaken.domain.event import (
    Error,
    InferenceComplete,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    TextDelta,
)
from awaken.testing.conformance.backends.asking import (
    PARENT,
    Ask,
    BothWays,
    NotSupported,
    as_delegate,
    as_root,
    root_request,
)
from awaken.testing.conformance.backends.subject import BackendPart, BackendSubject

check = BothWays()

ECHO = BackendPart.ECHO
_CALLERS = RunStart | RunFinish | StepStart | StepEnd | TextDelta | InferenceComplete | Error


@check.alone
async def a_roots_events_are_its_own(subject: BackendSubject) -> None:
    """Their envelopes name the run that was asked for, and no place in anybody's log."""
    ask = Ask()
    try:
        await as_root(subject, ask, subject.backend(ECHO))
    except NotSupported:
        return

    for event in ask.sink.events():
        assert (event.thread_id, event.run_id) == ("thread-of-run", "run")
        assert event.seq is None


@check.alone
async def a_root_leaves_its_borders_to_its_caller(subject: BackendSubject) -> None:
    """02/B7: who runs an agent elsewhere tells of its beginning, its answer and its end.

    A backend that has been given a local context is the caller itself.
    """
    ask = Ask()
    if (await root_request(subject, ask)).local is not None:
        return
    try:
        await as_root(subject, ask, subject.backend(ECHO))
    except NotSupported:
        return

    told = [type(event.event).__name__ for event in ask.sink.events()]
    doubled = [event for event in ask.sink.events() if isinstance(event.event, _CALLERS)]
    assert not doubled, told


@check.alone
async def a_delegates_events_are_its_own(subject: BackendSubject) -> None:
    """02 §2.14: a delegate is a run of its own, and its parent's listeners can tell."""
    ask = Ask()
    try:
        result = await as_delegate(subject, ask, subject.backend(ECHO))
    except NotSupported:
        return

    for event in ask.sink.events():
        assert event.run_id != PARENT.parent_run_id
        assert event.thread_id != PARENT.parent_thread_id
        assert result.run_id in (None, event.run_id)
        assert event.seq is None
