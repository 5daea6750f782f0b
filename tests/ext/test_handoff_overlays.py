"""What is changed about an agent for as long as a conversation is with it (03/DB-7 overlays)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from handoff_kit import offered, prompt, seen, to

from awaken import Agent, PhaseContext, Registrar, Runtime, ToolDescriptor, tool
from awaken.codec import dumps, loads
from awaken.core.budget import Price
from awaken.core.lifecycle import Blocked, Phase
from awaken.core.registry import ModelResolver
from awaken.core.spec import AgentSpec
from awaken.core.state.run_keys import AGENT_OVERLAYS, PutOverlay
from awaken.errors import ConfigError, ModelNotFound, ResolveFailed
from awaken.ext.handoff import AgentOverlay, Handoff
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.testing import ScriptedModel, tool_call_response
from awaken.testing.models import Response

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect="read")
async def touch() -> str:
    """Touch."""
    return "felt"


# -- the value --------------------------------------------------------------------------------


def test_an_overlay_changes_what_it_gives_and_nothing_else() -> None:
    """03 §3: `system_prompt`, `model_id`, `allowed_tools`, `excluded_tools`."""
    spec = AgentSpec(id="b", model_id="m", system_prompt="p", excluded_tools=("x",), max_rounds=3)

    assert AgentOverlay().on(spec) == spec
    laid = AgentOverlay(
        system_prompt="q", model_id="n", allowed_tools=("a",), excluded_tools=("y",)
    ).on(spec)
    assert (laid.system_prompt, laid.model_id, laid.max_rounds) == ("q", "n", 3)
    assert (laid.allowed_tools, laid.excluded_tools) == (("a",), ("x", "y"))


def test_unknown_fields_of_an_overlay_are_rejected() -> None:
    """03 §3: unknown fields rejected; the field is named."""
    with pytest.raises(msgspec.ValidationError, match="temperature"):
        AgentOverlay.read({"system_prompt": "q", "temperature": 1})
    with pytest.raises(TypeError, match="temperature"):
        AgentOverlay(temperature=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "overlay",
    [
        AgentOverlay(),
        AgentOverlay(system_prompt=""),
        AgentOverlay(allowed_tools=()),
        AgentOverlay(model_id="m", excluded_tools=("a", "b")),
    ],
)
def test_an_overlay_survives_being_written(overlay: AgentOverlay) -> None:
    """03 §3: what is not given is left out; nothing and no tools are not the same."""
    assert AgentOverlay.read(loads(dumps(overlay))) == overlay


def test_an_overlay_of_the_wrong_shape_is_refused_at_once() -> None:
    """Bad input: the agent, and which field."""
    with pytest.raises(ConfigError, match=r"overlay of 'b'.*allowed_tools"):
        Handoff("b", overlay=AgentOverlay(allowed_tools="look"))  # type: ignore[arg-type]


def test_overlays_are_kept_by_name() -> None:
    """03 §3: stored and looked up by name; nothing takes one away."""
    one, two = AgentOverlay(system_prompt="1"), AgentOverlay(system_prompt="2")

    kept = AGENT_OVERLAYS.apply({}, PutOverlay(agent="b", overlay=one))
    kept = AGENT_OVERLAYS.apply(kept, PutOverlay(agent="c", overlay=two))
    assert kept == {"b": one, "c": two}
    assert AGENT_OVERLAYS.load(AGENT_OVERLAYS.dump(kept)) == kept
    kept = AGENT_OVERLAYS.apply(kept, PutOverlay(agent="b"))
    assert AGENT_OVERLAYS.apply(kept, PutOverlay(agent="ghost")) == {"c": two}


class OnlyAgents:
    """A resolver that knows no models."""

    def resolve(self, agent_id: str) -> ResolvedAgent:
        raise AssertionError(agent_id)

    def agent_ids(self) -> list[str]:
        return []


def test_a_resolver_without_models_says_so() -> None:
    """Bad input: prompt and tools can be changed all the same."""
    agent = ResolvedAgent.new("b", "m", "p", ScriptedModel([]))

    assert agent.with_overlay(AgentOverlay(system_prompt="q"), OnlyAgents()).spec.model_id == "m"
    with pytest.raises(ResolveFailed, match=r"'b'.*'n'.*OnlyAgents.*resolve_model"):
        agent.with_overlay(AgentOverlay(model_id="n"), OnlyAgents())


# -- in a run ---------------------------------------------------------------------------------


def two(
    overlay: AgentOverlay | None,
    *,
    a: Sequence[Response] = (),
    b: Sequence[Response] = (),
    big: Sequence[Response] = (),
) -> tuple[Runtime, ScriptedModel, ScriptedModel]:
    small, large = ScriptedModel(b, name="small"), ScriptedModel(big, name="large")
    runtime = Runtime(
        [
            Agent(
                "a",
                model=ScriptedModel(a or [to("b")]),
                system_prompt="I am a.",
                handoffs=[Handoff("b", overlay=overlay, returns=True)],
            ),
            Agent("b", model=small, system_prompt="I am b.", tools=[look, touch]),
        ],
        models={"large": large},
    )
    return runtime, small, large


async def test_another_prompt_speaks() -> None:
    """03/DB-7 merged overlays: `system_prompt`."""
    runtime, b, _ = two(AgentOverlay(system_prompt="I am b for a."), b=["hello"])

    await runtime.run("a", "hello")

    assert prompt(b.requests[0]) == "I am b for a."


async def test_another_model_answers() -> None:
    """03/DB-7 merged overlays: `model_id`, through the registries, retries and all."""
    runtime, b, large = two(AgentOverlay(model_id="large"), big=["the large one"])

    result = await runtime.run("a", "hello")

    assert result.response == "the large one"
    assert (b.calls, large.calls) == (0, 1)
    assert large.requests[0].upstream_model == "large"
    assert prompt(large.requests[0]) == "I am b."


@pytest.mark.parametrize(
    ("overlay", "left"),
    [
        (AgentOverlay(allowed_tools=("look",)), ["look"]),
        (AgentOverlay(excluded_tools=("look",)), ["handoff", "touch"]),
        (AgentOverlay(allowed_tools=("look", "touch"), excluded_tools=("touch",)), ["look"]),
        (AgentOverlay(allowed_tools=()), []),
        (AgentOverlay(allowed_tools=("ghost", "look")), ["look"]),
    ],
)
async def test_tools_are_taken_away_and_none_is_added(
    overlay: AgentOverlay, left: list[str]
) -> None:
    """03/DB-7 merged overlays: `allowed_tools`, `excluded_tools`."""
    runtime, b, _ = two(overlay, b=["hello"])

    await runtime.run("a", "hello")

    assert offered(b.requests[0]) == left


async def test_a_tool_that_was_taken_away_cannot_be_called() -> None:
    """03/DB-7 merged overlays: not offered, and not run if a model makes it up."""
    runtime, b, _ = two(
        AgentOverlay(excluded_tools=("touch",)),
        b=[tool_call_response("", "touch", "c1", {}), "then not"],
    )

    result = await runtime.run("a", "hello")

    assert result.response == "then not"
    assert "felt" not in seen(b.requests[1])[-1]


async def test_client_tools_stay_the_clients_business() -> None:
    """01/D-22: what a request brings comes along; an overlay is about the agent."""
    click = ToolDescriptor(id="click", name="click", description="Click.")
    runtime, b, _ = two(AgentOverlay(excluded_tools=("touch", "look")), b=["hello"])

    await runtime.run("a", "hello", frontend_tools=[click])

    assert offered(b.requests[0]) == ["click", "handoff"]


async def test_the_overlay_lasts_as_long_as_the_agent_has_the_conversation() -> None:
    """03/DB-7 merged overlays: in later turns, too, and in no other thread."""
    runtime, b, _ = two(AgentOverlay(system_prompt="for a"), b=["1", "2", "3"])

    await runtime.run("a", "hello", thread="t")
    await runtime.run(input="again", thread="t")
    await runtime.run("b", "hello", thread="other")

    assert [prompt(request) for request in b.requests] == ["for a", "for a", "I am b."]


async def test_a_hand_over_without_an_overlay_takes_the_old_one_off() -> None:
    """03/DB-7 merged overlays: the last hand-over decides."""
    b = ScriptedModel(["1", "2"])
    runtime = Runtime(
        [
            Agent(
                "a",
                model=ScriptedModel([to("b")]),
                handoffs=[Handoff("b", overlay=AgentOverlay(system_prompt="for a"))],
            ),
            Agent("c", model=ScriptedModel([to("b", "h2")]), handoffs=["b"]),
            Agent("b", model=b, system_prompt="I am b."),
        ]
    )

    await runtime.run("a", "hello", thread="t")
    await runtime.run("c", "hello", thread="t")

    assert [prompt(request) for request in b.requests] == ["for a", "I am b."]


async def test_after_an_excursion_the_overlay_is_there_again() -> None:
    """03/DB-7: an agent that gets the conversation back is what it was; others are not touched."""
    b, c = ScriptedModel([to("c", "h2"), "done"]), ScriptedModel([to("b", "h3")])
    runtime = Runtime(
        [
            Agent(
                "a",
                model=ScriptedModel([to("b")]),
                handoffs=[Handoff("b", overlay=AgentOverlay(system_prompt="for a"))],
            ),
            Agent("b", model=b, handoffs=[Handoff("c", returns=True)]),
            Agent("c", model=c, system_prompt="I am c."),
        ]
    )

    await runtime.run("a", "hello")

    assert [prompt(request) for request in b.requests] == ["for a", "for a"]
    assert prompt(c.requests[0]) == "I am c."


async def test_overlays_of_one_agent_change_within_a_run() -> None:
    """03/DB-7 merged overlays: each is laid over the agent itself, not over the one before."""
    ways = [
        Handoff("b", overlay=AgentOverlay(allowed_tools=("look", "handoff"))),
        Handoff("b", overlay=AgentOverlay(allowed_tools=("touch", "handoff"))),
    ]
    b = ScriptedModel([to("c", "h2"), "done"])
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel([to("b")]), handoffs=[ways[0]]),
            Agent("b", model=b, tools=[look, touch], handoffs=["c"]),
            Agent("c", model=ScriptedModel([to("b", "h3")]), handoffs=[ways[1]]),
        ]
    )

    await runtime.run("a", "hello")

    assert [offered(request) for request in b.requests] == [
        ["handoff", "look"],
        ["handoff", "touch"],
    ]


class Spies:
    """Looks at the specification hooks are given."""

    id = "spies"

    def __init__(self) -> None:
        self.saw: list[tuple[str, str]] = []

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.BEFORE_INFERENCE, self._look)

    async def _look(self, ctx: PhaseContext) -> None:
        self.saw.append((ctx.agent_spec.system_prompt, ctx.agent_spec.model_id))


async def test_hooks_and_the_record_see_the_agent_as_it_is() -> None:
    """03/DB-7: the specification is the merged one; the agent behind it has not changed."""
    spies = Spies()
    overlay = AgentOverlay(system_prompt="for a", model_id="large")
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel([to("b")]), handoffs=[Handoff("b", overlay=overlay)]),
            Agent("b", model=ScriptedModel([]), plugins=[spies]),
        ],
        models={"large": ScriptedModel(["one", "two"])},
    )

    await runtime.run("a", "hello", thread="t")
    result = await runtime.run(input="again", thread="t")

    assert spies.saw == [("for a", "large"), ("for a", "large")]
    record = await runtime.find_run(result.run_id)
    assert record is not None
    assert (record.agent_id, record.agent_changes) == ("b", ())


async def test_a_model_that_is_gone_blocks_the_run_and_not_the_thread() -> None:
    """02 §5.3: the end says what is missing; then the agent speaks as it is."""
    overlay = AgentOverlay(model_id="large")
    runtime, b, _ = two(overlay, big=["large"], b=["small again"])
    await runtime.run("a", "hello", thread="t")
    gone = Runtime(
        [
            Agent("a", model=ScriptedModel([])),
            Agent("b", model=b, system_prompt="I am b.", tools=[look, touch]),
        ],
        store=runtime.store,
    )

    blocked = await gone.run(input="again", thread="t")
    result = await gone.run(input="and now?", thread="t")

    assert isinstance(blocked.termination, Blocked)
    assert "handoff resolve failed: agent 'b' asks for model 'large'" in blocked.termination.value
    assert result.response == "small again"


def test_a_model_nobody_knows_is_refused_when_building() -> None:
    """Bad input: before anything runs."""
    with pytest.raises(ConfigError, match=r"model 'pigeon:post'.*unknown"):
        Runtime(
            [
                Agent(
                    "a",
                    model="demo",
                    handoffs=[Handoff("b", overlay=AgentOverlay(model_id="pigeon:post"))],
                ),
                Agent("b", model="demo"),
            ]
        )


def test_the_registries_resolve_the_model_of_a_specification() -> None:
    """01 §5.3: the same two steps as for an agent's own."""
    runtime = Runtime([Agent("a", model="demo")])
    resolver = runtime.engine.registry.snapshot()
    spec = AgentSpec(id="a", model_id="ghost", system_prompt="")

    assert isinstance(resolver, ModelResolver)
    with pytest.raises(ModelNotFound, match=r"'a'.*'ghost'"):
        resolver.resolve_model(spec)


def test_another_model_has_another_price() -> None:
    """03/DB-7 merged overlays: a budget in money goes by the model that is really asked."""
    runtime = Runtime(
        [Agent("a", model="demo")],
        models={"large": ScriptedModel([], name="large")},
        prices={"demo": Price(input=1, output=2), "large": Price(input=10, output=20)},
    )
    resolver = runtime.engine.registry.snapshot()
    agent: ResolvedAgent = resolver.resolve("a")

    laid = agent.with_overlay(AgentOverlay(model_id="large"), resolver)

    assert agent.price == Price(input=1, output=2)
    assert laid.price == Price(input=10, output=20)
    assert (laid.upstream_model, laid.fingerprint) == ("large", agent.fingerprint)
