"""What the log tells of models that fail: retries, other models, circuits (`awaken.llm`)."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import pytest

from awaken import Agent, Runtime
from awaken.core.event import TextDelta
from awaken.core.llm import InferenceExecutionError, NoCredit, Overloaded, RateLimited
from awaken.errors import InferenceFailed
from awaken.testing import FakeClock, ScriptedModel

pytestmark = pytest.mark.anyio


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """The level and text of each line of the models' logger."""
    found = [record for record in caplog.records if record.name == "awaken.llm"]
    return [(record.levelname, record.getMessage()) for record in found]


async def test_a_retry_is_logged_with_its_error_and_its_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    model = ScriptedModel([RateLimited("slow", retry_after=7), Overloaded("full"), "ok"])

    async with Runtime([Agent("a", model=model)], clock=FakeClock(auto=True)) as runtime:
        await runtime.run("a", "hi")

    assert logged(caplog) == [
        (
            "INFO",
            "model a.model/scripted failed: rate limited: slow; asked again in 7.0 s, retry 1 of 2",
        ),
        (
            "INFO",
            "model a.model/scripted failed: provider overloaded: full; asked again in 4.0 s, "
            "retry 2 of 2",
        ),
    ]


async def test_what_a_provider_says_is_one_short_line_that_steers_no_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    evil = "full\nCRITICAL root: forged \x1b]0;title\x07\x1b[2J\u202e" + "x" * 5_000
    half: list[Any] = [TextDelta(delta="half "), Overloaded(evil)]
    models: dict[str, Any] = {
        "p": ScriptedModel([half, *[Overloaded(evil)] * 9]),
        "q": ScriptedModel(["ok"]),
        "r": ScriptedModel([NoCredit(evil)]),
    }
    agents = [Agent("a", model=["p", "q"]), Agent("b", model=["r", "q"]), Agent("c", model="p")]

    async with Runtime(agents, models=models, clock=FakeClock(auto=True)) as runtime:
        for agent in ("a", "b", "c", "c"):
            with suppress(InferenceFailed):
                await runtime.run(agent, "hi")

    lines = [text for _, text in logged(caplog)]
    told = " ".join(lines)
    assert all(word in told for word in ("retry", "moves from", "asked again", "circuit", "broke"))
    assert all(line.isprintable() and len(line) < 750 for line in lines)


async def test_a_continued_answer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model = ScriptedModel([[TextDelta(delta="half "), Overloaded("busy")], "and half"])

    async with Runtime([Agent("a", model=model)], clock=FakeClock(auto=True)) as runtime:
        await runtime.run("a", "hi")

    assert logged(caplog) == [
        (
            "INFO",
            "an answer of model scripted broke off: provider overloaded: busy; continued in 2.0 s, "
            "retry 1 of 2",
        )
    ]


@pytest.mark.parametrize(
    ("script", "levels"),
    [
        ([RateLimited("slow", retry_after=900)], ["WARNING"]),
        ([[TextDelta(delta="half "), RateLimited("slow", retry_after=900)]], ["WARNING", "INFO"]),
    ],
    ids=["before its answer", "in its answer"],
)
async def test_a_conversation_that_moves_is_a_warning(
    caplog: pytest.LogCaptureFixture, script: list[Any], levels: list[str]
) -> None:
    caplog.set_level(logging.INFO)
    models = {"p": ScriptedModel(script), "q": ScriptedModel(["q"] * 2)}
    agent, clock = Agent("a", model=["p", "q"]), FakeClock(auto=True)

    async with Runtime([agent], models=models, clock=clock) as runtime:
        await runtime.run("a", "hi", thread="t")
        await runtime.run("a", "hi", thread="t")  # stays with its model, and says nothing

    told = logged(caplog)
    assert [level for level, _ in told] == levels
    text = "pool p | q: conversation t moves from model p to model q: rate limited: slow"
    assert told[0] == ("WARNING", text)


async def test_a_model_without_credit_rests_for_all_threads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """docs/failover.md: it is asked again after five minutes, and not before."""
    empty = ScriptedModel([NoCredit("pay"), "paid"])
    models = {"p": empty, "q": ScriptedModel(["q"] * 3)}
    clock = FakeClock(auto=True)

    async with Runtime([Agent("a", model=["p", "q"])], models=models, clock=clock) as runtime:
        for thread in ("t1", "t2", "t3"):
            await runtime.run("a", "hi", thread=thread)
        assert empty.calls == 1
        clock.advance(301)
        assert (await runtime.run("a", "hi", thread="t4")).response == "paid"

    assert logged(caplog) == [
        ("WARNING", "pool p | q: model p is asked again in 300 s: no credit: pay"),
        ("WARNING", "pool p | q: conversation t1 moves from model p to model q: no credit: pay"),
    ]


async def test_a_conversation_that_moves_because_its_model_rests_is_a_warning_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says so once: from then on the conversation stays with the other model."""
    models = {"p": ScriptedModel(["p", "p", NoCredit("pay")]), "q": ScriptedModel(["q"] * 6)}
    clock = FakeClock(auto=True)

    async with Runtime([Agent("a", model=["p", "q"])], models=models, clock=clock) as runtime:
        for thread in ("t1", "t2", "t1"):
            await runtime.run("a", "hi", thread=thread)
        clock.advance(100)
        for thread in ("t2", "t2", "t1", "t3", "t2"):
            assert (await runtime.run("a", "hi", thread=thread)).response == "q"

    assert logged(caplog) == [
        ("WARNING", "pool p | q: model p is asked again in 300 s: no credit: pay"),
        ("WARNING", "pool p | q: conversation t1 moves from model p to model q: no credit: pay"),
        (
            "WARNING",
            "pool p | q: conversation t2 moves from model p to model q: no credit: pay; "
            "model p is asked again in 200 s",
        ),
    ]


async def test_a_conversation_that_moves_because_a_circuit_is_open_is_a_warning_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another agent's runs opened the circuit of its model."""
    failures: list[Any] = [Overloaded("full")] * 5
    models = {"p": ScriptedModel(["p", *failures]), "q": ScriptedModel(["q"] * 3)}
    agents = [
        Agent("a", model=["p", "q"]),
        Agent("b", model="p", sections={"retry": {"max_retries": 0}}),
    ]
    clock = FakeClock(auto=True)

    async with Runtime(agents, models=models, clock=clock) as runtime:
        await runtime.run("a", "hi", thread="t")
        for _ in failures:
            with suppress(InferenceFailed):
                await runtime.run("b", "hi")
        clock.advance(10)
        for _ in range(3):
            assert (await runtime.run("a", "hi", thread="t")).response == "q"

    opened, *moves = logged(caplog)
    assert opened[1].startswith("circuit of model p/scripted opened: it failed 5 times in a row")
    assert moves == [
        (
            "WARNING",
            "pool p | q: conversation t moves from model p to model q: provider error: circuit "
            "breaker open for model p/scripted: it is asked again in 20 s; it failed too often, "
            "the last time with: provider overloaded: full",
        )
    ]


async def test_a_circuit_that_opens_and_closes_is_logged_and_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    failures: list[InferenceExecutionError | str] = [Overloaded("full") for _ in range(6)]
    agent = Agent(
        "a", model=ScriptedModel([*failures, "ok"]), sections={"retry": {"max_retries": 0}}
    )
    clock = FakeClock(auto=True)

    async with Runtime([agent], clock=clock) as runtime:
        for _ in range(5):
            with suppress(InferenceFailed):
                await runtime.run("a", "hi")
        clock.advance(10)
        with pytest.raises(
            InferenceFailed,
            match=r"circuit breaker open for model a.model/scripted: it is asked again in 20 s; it "
            r"failed too often, the last time with: provider overloaded: full",
        ):
            await runtime.run("a", "hi")
        clock.advance(21)
        with suppress(InferenceFailed):
            await runtime.run("a", "hi")  # the probe fails, too
        clock.advance(31)
        assert (await runtime.run("a", "hi")).response == "ok"

    why = "times in a row, the last time with: provider overloaded: full; it is asked again in 30 s"
    assert logged(caplog) == [
        ("WARNING", f"circuit of model a.model/scripted opened: it failed 5 {why}"),
        ("WARNING", f"circuit of model a.model/scripted stays open: it failed 6 {why}"),
        ("INFO", "circuit of model a.model/scripted closed: the model answers again"),
    ]
