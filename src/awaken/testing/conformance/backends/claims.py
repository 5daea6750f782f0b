"""Checks of declared capabilities: they stay the same, and the backend does not exceed them."""

from __future__ import annotations

import msgspec

from awaken.core.backend import (
    BackendCapabilities,
    BackendTranscriptCapability,
    BackendWaitCapability,
)
from awaken.core.inference import InferenceOverride
from awaken.core.message import Message
from awaken.core.run import PersistedState
from awaken.core.tool import ToolDescriptor
from awaken.testing.conformance.backends.helpers import (
    Ask,
    BackendPart,
    BackendSubject,
    BothWays,
    NotSupported,
    Way,
    as_delegate,
    as_root,
    check_completed,
    expect_failure,
    is_waiting,
)

check = BothWays()

ECHO, ASKING = BackendPart.ECHO, BackendPart.ASKING


@check.alone
async def it_runs_agents_in_one_way_at_least(subject: BackendSubject) -> None:
    """02 §2.7: if it refuses the other way, it does so with the contract's text."""
    ways = 0
    for way in (as_root, as_delegate):
        try:
            check_completed(await way(subject, Ask(), subject.backend(ECHO)), "hello")
        except NotSupported:
            continue
        ways += 1
    assert ways, "the backend runs neither roots nor delegates"


@check.alone
async def what_it_can_do_does_not_change(subject: BackendSubject) -> None:
    """02 §2.8: the capabilities before a run and after it are the same."""
    backend = subject.backend(ECHO)
    before = backend.capabilities()
    assert isinstance(before, BackendCapabilities)
    for way in (as_root, as_delegate):
        try:
            await way(subject, Ask(run=way.__name__), backend)
        except NotSupported:
            continue
        assert backend.capabilities() == before
    assert subject.backend(ECHO).capabilities() == before
    assert msgspec.convert(msgspec.to_builtins(before), BackendCapabilities) == before


@check
async def the_whole_conversation_is_read_if_it_says_so(subject: BackendSubject, way: Way) -> None:
    """02 §2.2: `full_transcript`."""
    backend = subject.backend(BackendPart.RECALLING)
    if backend.capabilities().transcript is not BackendTranscriptCapability.FULL_TRANSCRIPT:
        return
    before = (Message.user("the first", id="m1"), Message.assistant("an answer", id="m2"))

    ask = Ask(part=BackendPart.RECALLING, text="the last", before=before)
    check_completed(await way(subject, ask, backend), "the first")


@check.alone
async def overrides_are_taken_if_it_says_so(subject: BackendSubject) -> None:
    """02 §2.3: what the backend does not declare is refused before the backend is called."""
    backend = subject.backend(ECHO)
    if backend.capabilities().overrides:
        ask = Ask(changes={"overrides": InferenceOverride(temperature=0.5, max_tokens=1_000)})
        await _as_root_if_supported(subject, ask)


@check.alone
async def frontend_tools_are_taken_if_it_says_so(subject: BackendSubject) -> None:
    """02 §2.3."""
    backend = subject.backend(ECHO)
    if backend.capabilities().frontend_tools:
        tools = [ToolDescriptor(id="dialog", name="dialog", description="Ask the person.")]
        await _as_root_if_supported(subject, Ask(changes={"frontend_tools": tools}))


async def _as_root_if_supported(subject: BackendSubject, ask: Ask) -> None:
    try:
        check_completed(await as_root(subject, ask, subject.backend(ECHO)), "hello")
    except NotSupported:
        return


@check
async def an_agent_that_asks_waits_if_it_says_so(subject: BackendSubject, way: Way) -> None:
    """02 §2.6, 02/B2: a wait is reported as a wait if that is declared, else as an error."""
    backend = subject.backend(ASKING)
    ask = Ask(part=ASKING)
    if backend.capabilities().waits is BackendWaitCapability.NONE:
        assert await expect_failure(way(subject, ask, backend))
        return

    assert is_waiting(await way(subject, ask, backend))


@check.alone
async def a_run_that_waits_is_continued_if_it_says_so(subject: BackendSubject) -> None:
    """02 §2.4: with the same identity, the saved state, and the answer."""
    backend = subject.backend(ASKING)
    can = backend.capabilities()
    if not can.continuation.is_possible or can.waits is BackendWaitCapability.NONE:
        return
    question = Ask(part=ASKING)
    try:
        waiting = await as_root(subject, question, backend)
    except NotSupported:
        return
    assert is_waiting(waiting)
    kept = {**question.saved, **(waiting.state.extensions if waiting.state else {})}

    answer = Ask(
        part=ASKING,
        text="yes",
        before=(question.message,),
        changes={
            "is_continuation": True,
            "persisted_state": PersistedState(extensions=kept),
        },
    )
    result = await as_root(subject, answer, backend)

    check_completed(result, result.output.text_or(result.response) or "")
