"""A model that answers with nothing is asked once more; then the caller is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from awaken import Agent, Budget, RemoteAgent, Retry, Runtime, tool
from awaken.backend import (
    BackendCapabilities,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackend,
)
from awaken.core.inference import StopReason, StreamResult, TokenUsage
from awaken.core.lifecycle import NATURAL_END
from awaken.core.message import Opaque, Text, Thinking
from awaken.core.spec import RemoteEndpoint
from awaken.errors import RunNotOk
from awaken.testing import ScriptedModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

EMPTY = StreamResult(
    content=(), usage=TokenUsage(prompt_tokens=10), stop_reason=StopReason.END_TURN
)


@pytest.mark.parametrize(
    "content",
    [(), (Text(text=" \n"),), (Thinking(thinking="Hm."),)],
    ids=["none", "blank", "thought"],
)
async def test_an_empty_answer_is_asked_for_once_more(content: tuple[Text | Thinking, ...]) -> None:
    first = StreamResult(content=content, usage=EMPTY.usage, stop_reason=StopReason.END_TURN)
    model = ScriptedModel([first, text_response("Here.", TokenUsage(prompt_tokens=11))])

    async with Runtime([Agent("a", model=model)]) as runtime:
        result = await runtime.run("a", "hi", thread="t")
        messages = await runtime.messages("t")

    assert (result.response, result.ok, result.steps) == ("Here.", True, 1)
    assert result.usage.prompt_tokens == 21  # both were paid
    assert [message.text() for message in messages] == ["hi", "Here."]
    assert model.requests[0].messages == model.requests[1].messages


async def test_a_model_that_answers_with_nothing_twice_is_told_to_the_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel([EMPTY, EMPTY])

    async with Runtime([Agent("a", model=model)]) as runtime:
        result = await runtime.run("a", "hi", thread="t")
        again = await runtime.wait(result.run_id)

    assert model.remaining == 0
    for each in (result, again):
        assert (each.ok, each.response, each.usage.prompt_tokens) == (False, "", 20)
        with pytest.raises(RunNotOk, match="the model's answer was empty, also when it was asked"):
            each.unwrap()
    assert f"run {result.run_id}: the model's answer was empty, twice" in caplog.text


async def test_an_empty_answer_after_a_call_is_asked_for_once_more() -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([tool_call_response("", "look", "c1", {}), EMPTY, "I saw it."])

    async with Runtime([Agent("a", model=model, tools=[look])]) as runtime:
        result = await runtime.run("a", "hi")

    assert (result.response, result.steps) == ("I saw it.", 2)


async def test_a_budget_that_is_too_small_ends_it_with_the_empty_answer() -> None:
    spent = StreamResult(
        content=(), usage=TokenUsage(prompt_tokens=950), stop_reason=StopReason.END_TURN
    )
    model = ScriptedModel([spent, "never"])

    async with Runtime([Agent("a", model=model, budget=Budget(tokens=1_000))]) as runtime:
        result = await runtime.run("a", "hi")

        again = await runtime.wait(result.run_id)

    assert (result.ok, model.remaining) == (False, 1)
    assert result.reason == again.reason == "the answer has no text"


OPAQUE = StreamResult(
    content=(Opaque(origin="someone", kind="search", data={}),),
    stop_reason=StopReason.END_TURN,
)


async def test_an_answer_of_blocks_without_text_is_not_asked_for_again_and_not_called_so() -> None:
    model = ScriptedModel([OPAQUE, "never"])

    async with Runtime([Agent("a", model=model)]) as runtime:
        result = await runtime.run("a", "hi")
        again = await runtime.wait(result.run_id)

    assert (result.ok, model.remaining) == (False, 1)
    assert result.reason == again.reason == "the answer has no text"


async def test_an_empty_answer_followed_by_one_of_blocks_was_not_empty_twice() -> None:
    model = ScriptedModel([EMPTY, OPAQUE])

    async with Runtime([Agent("a", model=model)]) as runtime:
        result = await runtime.run("a", "hi")

    assert (model.remaining, result.reason) == (0, "the answer has no text")


async def test_only_the_last_answer_says_whether_it_was_asked_for_again() -> None:
    """The empty answers of a step before, which a hook sent on, are not those of the last one."""
    agent = Agent("a", model=ScriptedModel([EMPTY, EMPTY, OPAQUE]), output_check=ask_again_once())

    async with Runtime([agent]) as runtime:
        result = await runtime.run("a", "hi")
        again = await runtime.wait(result.run_id)

    assert result.steps == 2
    assert result.reason == again.reason == "the answer has no text"


def ask_again_once() -> Callable[[object, str], str]:
    """A check that refuses the first answer."""
    seen: list[str] = []

    def check(ctx: object, text: str) -> str:
        seen.append(text)
        if len(seen) == 1:
            raise Retry("say something")
        return text

    return check


class Silent(ExecutionBackend):
    """A backend whose agents end with an empty answer."""

    def capabilities(self) -> BackendCapabilities:
        return BackendCapabilities.remote_stateless_text()

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        return BackendRunResult(
            agent_id=request.agent_id,
            status=BackendRunStatus.completed(),
            termination=NATURAL_END,
            response="",
        )


class SilentFactory:
    """Makes that backend."""

    def backend(self) -> str:
        return "silent"

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """Any will do."""

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        return Silent()


async def test_a_remote_agent_that_answers_with_nothing_was_asked_once() -> None:
    far = RemoteAgent("far", url="https://agents.example", backend="silent")

    async with Runtime([far], backends=[SilentFactory()]) as runtime:
        result = await runtime.run("far", "hi")
        again = await runtime.wait(result.run_id)

    assert result.termination == NATURAL_END
    assert result.reason == again.reason == "the answer has no text"
