"""Checks of runs that end by themselves: their results fit their input."""

from __future__ import annotations

import asyncio

from awaken.core.aio.owned_tasks import start_task
from awaken.core.message import Message
from awaken.testing.conformance.backends.helpers import (
    Ask,
    BackendPart,
    BackendSubject,
    BothWays,
    Way,
    check_completed,
    expect_failure,
)
from awaken.testing.conformance.helpers import MAX_WAIT_SECONDS

check = BothWays()

ECHO = BackendPart.ECHO
CROWD = 3
ODD = (
    " \tspace around \r\n and lines\n\n"
    "Grüße, 你好, שלום, 🐍👩‍👩‍👧, e\u0301, \u2028\u2029\ufeff"
    '{"type": "result"} </text> \\u0000 \\ " \' % {0}\n'
)
HUGE = "lorem ipsum " * 25_000


@check
async def an_agent_answers(subject: BackendSubject, way: Way) -> None:
    """02 §2.5: the text of the result is the agent's answer."""
    check_completed(await way(subject, Ask(text="hello"), subject.backend(ECHO)), "hello")


@check
async def the_last_message_is_answered(subject: BackendSubject, way: Way) -> None:
    """02 §2.2: whatever part of the conversation it reads."""
    before = (Message.user("first", id="m1"), Message.assistant("second", id="m2"))

    ask = Ask(text="third", before=before)
    check_completed(await way(subject, ask, subject.backend(ECHO)), "third")


@check
async def an_unusual_prompt_arrives_unchanged(subject: BackendSubject, way: Way) -> None:
    """Lines, white space, other scripts, and text that looks like markup."""
    check_completed(await way(subject, Ask(text=ODD), subject.backend(ECHO)), ODD)


@check
async def a_huge_prompt_arrives_unchanged(subject: BackendSubject, way: Way) -> None:
    check_completed(await way(subject, Ask(text=HUGE), subject.backend(ECHO)), HUGE)


@check
async def an_empty_prompt_is_a_prompt(subject: BackendSubject, way: Way) -> None:
    """02/B13: an empty answer is one, too."""
    check_completed(await way(subject, Ask(text=""), subject.backend(ECHO)), "")


@check
async def runs_after_one_another_are_apart(subject: BackendSubject, way: Way) -> None:
    backend = subject.backend(ECHO)
    results = [
        await way(subject, Ask(text=text, run=f"run-{text}"), backend) for text in ("a", "b")
    ]

    assert [result.output.text_or(result.response) for result in results] == ["a", "b"]
    ids = [result.run_id for result in results if result.run_id is not None]
    assert len(set(ids)) == len(ids)


@check
async def runs_at_once_do_not_mix(subject: BackendSubject, way: Way) -> None:
    backend = subject.backend(ECHO)
    asks = [Ask(text=f"word {number}", run=f"run-{number}") for number in range(CROWD)]
    runs = [start_task(way(subject, ask, backend)) for ask in asks]
    _, stuck = await asyncio.wait(runs, timeout=CROWD * MAX_WAIT_SECONDS)
    for run in stuck:
        run.cancel()
    assert not stuck, "runs at once keep each other from ending"

    for ask, run in zip(asks, runs, strict=True):
        check_completed(run.result(), ask.text)
    ids = [run.result().run_id for run in runs]
    assert len({id for id in ids if id is not None}) == CROWD - ids.count(None)


@check
async def a_failure_is_reported(subject: BackendSubject, way: Way) -> None:
    """02 §2.6, §2.7: as a failed result or as an error, and the same the second time."""
    backend = subject.backend(BackendPart.FAILING)
    for number in range(2):
        ask = Ask(part=BackendPart.FAILING, run=f"run-{number}")
        assert await expect_failure(way(subject, ask, backend))
