"""Agents with several models, through the front door."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from awaken import Agent, Runtime
from awaken.core.event import TextDelta
from awaken.core.llm import (
    InferenceRequest,
    LlmExecutor,
    LlmStreamEvent,
    Overloaded,
    RateLimited,
)
from awaken.core.message import Base64Source, Image, Message
from awaken.core.spec import AgentSpec, Modalities, ModelPoolSpec, ModelSpec, PoolMemberSpec
from awaken.errors import BuildError, ConfigError, InferenceFailed
from awaken.testing import FakeClock, ScriptedModel

pytestmark = pytest.mark.anyio


async def test_a_list_of_models_is_asked_in_order() -> None:
    one, other = ScriptedModel([RateLimited("full")]), ScriptedModel(["from the other"] * 2)
    agent = Agent("a", model=["x:one", "x:other"])
    async with Runtime([agent], models={"x:one": one, "x:other": other}) as runtime:
        assert (await runtime.run("a", "go", thread="t")).response == "from the other"
        assert (await runtime.run("a", "go", thread="t")).response == "from the other"
    assert other.requests[0].upstream_model == "other"
    assert (one.calls, other.calls) == (1, 2)


async def test_a_stream_that_breaks_goes_on_with_the_next_model() -> None:
    one = ScriptedModel([[TextDelta(delta="half "), Overloaded("busy")]])
    other = ScriptedModel(["and half"])
    agent = Agent("a", model=["one", "other"])
    runtime = Runtime([agent], models={"one": one, "other": other}, clock=FakeClock(auto=True))
    async with runtime:
        assert (await runtime.run("a", "go")).response == "half and half"


async def test_a_pool_may_have_a_name_agents_as_data_use() -> None:
    pool = ModelPoolSpec(
        id="pool", members=(PoolMemberSpec(model_id="one"), PoolMemberSpec(model_id="other"))
    )
    spec = AgentSpec(id="a", model_id="pool", system_prompt="")
    models: dict[str, LlmExecutor | ModelPoolSpec] = {
        "pool": pool,
        "one": ScriptedModel(["hi"]),
        "other": ScriptedModel(["hi"]),
    }
    async with Runtime([spec], models=models) as runtime:
        assert (await runtime.run("a", "go")).response == "hi"


def test_a_list_that_is_none_of_names_is_refused() -> None:
    with pytest.raises(ConfigError, match="several models are given by their names"):
        Agent("a", model=[])
    with pytest.raises(ConfigError, match="has a member twice: demo"):
        Agent("a", model=["demo", "demo"])


def test_a_pool_with_an_unknown_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="provider 'papyrus' is unknown"):
        Runtime([Agent("a", model=["demo", "papyrus:x"])])


def test_two_things_of_one_name_are_refused() -> None:
    pool = ModelPoolSpec(id="demo", members=(PoolMemberSpec(model_id="demo"),))
    with pytest.raises(BuildError, match="'demo'"):
        Runtime([], models={"x": pool, "demo": ScriptedModel([])})


async def test_a_model_is_not_sent_what_it_is_declared_not_to_read() -> None:
    model = ScriptedModel(["fine"])
    reads = ModelSpec(
        id="plain", provider_id="plain", upstream_model="p", modalities=Modalities(input=("text",))
    )
    picture = Image(source=Base64Source(media_type="image/png", data="aGk="))
    runtime = Runtime([Agent("a", model="plain")], models={"plain": model}, model_specs=[reads])
    async with runtime:
        with pytest.raises(InferenceFailed, match="'plain' does not support Image input"):
            await runtime.run("a", [Message.user_with_content([picture])])
        assert (await runtime.run("a", "in words")).response == "fine"
    assert model.requests[0].upstream_model == "p"


async def test_models_opened_by_name_are_closed_with_the_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []

    class Closing:
        name = "closing"

        async def execute_stream(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
            yield TextDelta(delta="hi")

        async def aclose(self) -> None:
            closed.append(self.name)

    monkeypatch.setattr("awaken.runtime.model_stack.open_model", lambda name: Closing())
    async with Runtime([Agent("a", model="any:thing"), Agent("b", model="any:thing")]) as runtime:
        await runtime.run("a", "go")
    assert closed == ["closing"]
    mine = Closing()
    async with Runtime([Agent("a", model=mine)]):
        pass
    assert closed == ["closing"]
