"""A value that could not be read back is refused by the store, whatever let it pass: the run ends
as failed, and no process asks its model again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from front_kit import Piece

from awaken import (
    RUN_LIFECYCLE,
    Agent,
    AwakenError,
    Command,
    Done,
    Message,
    Phase,
    PhaseContext,
    Registrar,
    RunInfo,
    Runtime,
    Scope,
    SetResult,
    StateKey,
    ToolResult,
    tool,
)
from awaken.core.event import RunFinish, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.lifecycle import Failed, RunStatus
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop, Usage
from awaken.errors import StorageError, UnreadableValue
from awaken.ext.handoff.state import HANDOFF, HandoffRequest

pytestmark = pytest.mark.anyio


class Model:
    """A model that counts how often it is asked. It calls the tool `look` once, and changes the
    usage that it has reported after it was checked, if it is told so."""

    name = "counted"

    def __init__(self, *, spoils_usage: bool = False) -> None:
        self.asked = 0
        self._spoils_usage = spoils_usage

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self.asked += 1
        usage = TokenUsage(prompt_tokens=3, completion_tokens=2)
        if not self._spoils_usage and request.messages[-1].role.value == "user":
            yield ToolCallStart(id="c", name="look")
            yield ToolCallDelta(id="c", args_delta="{}")
        else:
            yield TextDelta(delta="Done.")
        yield Usage(usage=usage)
        if self._spoils_usage:
            msgspec.structs.force_setattr(usage, "prompt_tokens", 1.5)
        yield Stop(reason=StopReason.END_TURN)


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


def spoiling_gate(registrar: Registrar) -> None:
    async def gate(_: Any) -> SetResult:
        wrong: Any = 7
        return SetResult(result=ToolResult.success(wrong, "seen"))

    registrar.gate(gate)


@dataclass
class Deps:
    """What an agent needs."""


def model_case() -> tuple[Model, Agent[Any, Any], dict[str, Any], Message]:
    model = Model(spoils_usage=True)
    return model, Agent("a", model=model), {}, Message.user("Hello")


def gate_case() -> tuple[Model, Agent[Any, Any], dict[str, Any], Message]:
    model = Model()
    plugin = Piece("spoiler", spoiling_gate)
    return model, Agent("a", model=model, tools=[look], plugins=[plugin]), {}, Message.user("Hello")


def input_case() -> tuple[Model, Agent[Any, Any], dict[str, Any], Message]:
    """The message is changed between its check and the run's first commit."""
    model, message = Model(), Message.user("Hello")

    def make(_: RunInfo) -> Deps:
        msgspec.structs.force_setattr(message, "tool_call_id", 7)
        return Deps()

    return model, Agent("a", model=model, tools=[look], deps=Deps), {"deps": {Deps: make}}, message


Case = Callable[[], tuple[Model, Agent[Any, Any], dict[str, Any], Message]]


@pytest.mark.parametrize(
    ("case", "asked"),
    [(model_case, 1), (gate_case, 1), (input_case, 0)],
    ids=["model", "gate", "input"],
)
async def test_a_run_with_a_refused_value_ends_as_failed_and_is_not_begun_again(
    case: Case, asked: int, durable_address: str
) -> None:
    model, agent, options, message = case()
    async with Runtime([agent], store=durable_address, **options) as runtime:
        with pytest.raises(StorageError) as caught:
            await runtime.run("a", message, thread="t")
        assert isinstance(caught.value.cause, UnreadableValue)
        assert model.asked == asked
        await assert_failed(runtime)
        await runtime.look_around()
    assert model.asked == asked

    # Another process finds nothing to resume, reads every list, and can use the thread.
    other = Model()
    async with Runtime([Agent("a", model=other, tools=[look])], store=durable_address) as runtime:
        assert runtime.recovered == []
        await runtime.look_around()
        assert other.asked == 0
        await assert_failed(runtime)
        assert (await runtime.run("a", "Again", thread="t")).ok


# -- values of our own types, made by callers' code -----------------------------------------------

WRONG: Any = 7
USED: StateKey[TokenUsage, TokenUsage] = StateKey("used", initial=TokenUsage, scope=Scope.THREAD)


def updating(change: Callable[[], Command]) -> Piece:
    """A plugin whose first hook makes the update, and no later one."""
    changes = [change]

    async def hook(_: PhaseContext) -> Command | None:
        return changes.pop()() if changes else None

    return Piece("updating", lambda registrar: registrar.hook(Phase.AFTER_INFERENCE, hook))


UPDATES: dict[str, tuple[Callable[[], Command], str]] = {
    "a usage in a key of an agent": (
        lambda: Command().update(USED, TokenUsage(prompt_tokens=WRONG / 2)),
        "cannot encode 'used': it could not be read back: Expected `int | null`, got `float`",
    ),
    "the agent of a handoff": (
        lambda: Command().update(HANDOFF, HandoffRequest(agent=WRONG)),
        "it holds str or NoneType, not int",
    ),
    "the reason of an end": (
        lambda: Command().update(RUN_LIFECYCLE, Done(reason=WRONG)),
        "Expected `str`, got `int` - at `$.reason`",
    ),
    "the time of an end": (
        lambda: Command().update(RUN_LIFECYCLE, Done(reason="over", updated_at=1.5)),  # type: ignore[arg-type]
        "Expected `int`, got `float` - at `$.updated_at`",
    ),
}


@pytest.mark.parametrize(("change", "told"), UPDATES.values(), ids=UPDATES)
async def test_an_update_with_a_wrong_value_of_our_types_fails_its_run_and_no_later_one(
    change: Callable[[], Command], told: str, durable_address: str
) -> None:
    agent = Agent("a", model="demo", state=[USED], plugins=[updating(change)], handoffs=["b"])
    async with Runtime([agent, Agent("b", model="demo")], store=durable_address) as runtime:
        with pytest.raises(AwakenError, match=re.escape(told)):
            await runtime.run("a", "Hello", thread="t")
        (run,) = await runtime.list_runs()
        assert run.status is RunStatus.DONE
        assert isinstance(run.termination_reason, Failed)
        assert (await runtime.run("a", "Again", thread="t")).ok
        assert await runtime.state("t", USED) == TokenUsage()


async def assert_failed(runtime: Runtime) -> None:
    (run,) = await runtime.list_runs()
    assert run.status is RunStatus.DONE
    assert isinstance(run.termination_reason, Failed)
    assert "could not be read back" in run.termination_reason.value
    (thread,) = await runtime.list_threads()
    assert (thread.owner, thread.open_run_id) == (None, None)
    events = [told.event async for told in runtime.events("t", follow=False)]
    assert isinstance(events[-1], RunFinish)
    await runtime.messages("t")


async def test_a_submission_whose_run_is_refused_is_done_and_the_next_one_starts(
    durable_address: str,
) -> None:
    model = Model(spoils_usage=True)
    async with Runtime([Agent("a", model=model)], store=durable_address) as runtime:
        first = await runtime.submit("a", "One", thread="t")
        result = await runtime.wait(first.run_id, timeout=30)
        assert isinstance(result.termination, Failed)
        assert model.asked == 1
        second = await runtime.submit("a", "Two", thread="t")
        assert isinstance((await runtime.wait(second.run_id, timeout=30)).termination, Failed)
        assert model.asked == 2
        assert not await runtime.store.load_commands("t")
