"""Checks of events: they belong to this run, and are not those that the caller emits."""

from __future__ import annotations

from awaken.core.event import (
    Error,
    InferenceComplete,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    TextDelta,
)
from awaken.testing.conformance.backends.helpers import (
    PARENT,
    Ask,
    BackendPart,
    BackendSubject,
    BothWays,
    NotSupported,
    as_delegate,
    as_root,
    root_request,
)

check = BothWays()

ECHO = BackendPart.ECHO
_CALLERS = RunStart | RunFinish | StepStart | StepEnd | TextDelta | InferenceComplete | Error


@check.alone
async def a_roots_events_are_its_own(subject: BackendSubject) -> None:
    """Their envelopes name the requested run, and have no `seq`."""
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
    """02/B7: the caller of a remote backend emits the events of the run's start, answer and end.

    A backend that gets a local context emits them itself.
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
    """02 §2.14: a delegate is a run of its own; clients of its parent can see that."""
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
