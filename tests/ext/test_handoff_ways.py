"""There and back: returns, the loop guard, who is on record (03 §3, 03/DB-7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from handoff_kit import offered, seen, to

from answer_kit import by_id
from awaken import Agent, Command, Phase, PhaseContext, Registrar, Runtime, ToolCallContext, tool
from awaken.core.event import CollectingSink, InferenceComplete, RunFinish, RunStart
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import NATURAL_END
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.state.run_keys import ACTIVE_AGENT
from awaken.core.tool_context import ToolOutput
from awaken.errors import ConfigError
from awaken.ext.handoff import Handoff, HandoffPlugin
from awaken.ext.handoff.state import HANDOFF, Clear, HandoffRequest
from awaken.testing import FunctionModel, ScriptedModel, tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio


# -- back -------------------------------------------------------------------------------------


async def test_an_agent_may_give_back_what_it_was_given() -> None:
    """03/DB-7 return path: to who gave it, without a way of its own."""
    desk = ScriptedModel([to("billing"), "anything else?"])
    billing = ScriptedModel([to("desk", "h2", "refunded")])
    runtime = Runtime(
        [
            Agent("desk", model=desk, handoffs=[Handoff("billing", returns=True)]),
            Agent("billing", model=billing),
        ]
    )

    result = await runtime.run("desk", "refund me", thread="t")

    assert result.response == "anything else?"
    assert offered(billing.requests[0]) == ["handoff"]
    assert "desk: Only to give back" in billing.requests[0].tools[0].description
    record = await runtime.find_run(result.run_id)
    assert record is not None
    assert record.agent_id == "desk"


async def test_without_leave_there_is_no_way_back() -> None:
    """03/DB-7 return path, when allowed: by default an agent has the ways it was given."""
    billing = ScriptedModel(["done"])
    runtime = Runtime(
        [
            Agent("desk", model=ScriptedModel([to("billing")]), handoffs=["billing"]),
            Agent("billing", model=billing),
        ]
    )

    await runtime.run("desk", "refund me")

    assert offered(billing.requests[0]) == []


async def test_only_the_one_who_gave_gets_it_back() -> None:
    """03/DB-7 return path: an agent that was asked directly has nobody to give back to."""
    billing = ScriptedModel([to("desk"), "then I do it"])
    runtime = Runtime(
        [
            Agent("desk", model=ScriptedModel([]), handoffs=[Handoff("billing", returns=True)]),
            Agent("billing", model=billing),
        ]
    )

    result = await runtime.run("billing", "refund me")

    assert result.response == "then I do it"
    assert "did not come from 'desk'" in seen(billing.requests[1])[-1]


async def test_three_agents_give_back_step_by_step() -> None:
    """03/DB-7 return path: who got it back may give it back further."""
    there = Handoff("b", returns=True), Handoff("c", returns=True)
    a = ScriptedModel([to("b", "1"), "home"])
    b = ScriptedModel([to("c", "2"), to("a", "4")])
    c = ScriptedModel([to("a", "refused"), to("b", "3")])
    runtime = Runtime(
        [
            Agent("a", model=a, handoffs=[there[0], there[1]]),
            Agent("b", model=b, handoffs=[there[1]]),
            Agent("c", model=c),
        ]
    )

    result = await runtime.run("a", "hello")

    assert result.response == "home"
    assert "did not come from 'a'" in seen(c.requests[1])[-1], "it came from b"
    assert (a.calls, b.calls, c.calls) == (2, 2, 2)


# -- round and round --------------------------------------------------------------------------


def ping_pong(**options: Any) -> tuple[Runtime, list[str]]:
    """Two agents that hand over to each other until one of them may not."""
    heard: list[str] = []

    def speaker(name: str, other: str) -> Agent:
        def answer(request: InferenceRequest) -> StreamResult | str:
            heard.append(name)
            last = request.messages[-1]
            if last.role is Role.TOOL and "may not be handed over again" in last.text():
                return f"{name} gives up"
            return to(other, f"h{len(heard)}")

        model = FunctionModel(answer)
        return Agent(name, model=model, handoffs=[other], max_rounds=0, **options)

    return Runtime([speaker("ping", "pong"), speaker("pong", "ping")]), heard


async def test_a_run_is_handed_over_eight_times_and_no_more() -> None:
    """03/DB-7 loop guard: the ninth call is refused, and whoever made it answers."""
    runtime, heard = ping_pong()

    result = await runtime.run("ping", "go", thread="t")

    assert result.termination == NATURAL_END
    assert result.response == "ping gives up"
    assert heard == ["ping", "pong"] * 4 + ["ping", "ping"]
    refused = [m.text() for m in await runtime.messages("t") if "over again" in m.text()]
    assert len(refused) == 1
    assert "handed over 8 times" in refused[0]
    assert "answer the user yourself" in refused[0]


async def test_the_limit_is_the_agents_own() -> None:
    """03/DB-7 loop guard: each agent says how many hand-overs it still takes part in."""
    runtime, heard = ping_pong(max_handoffs=1)

    result = await runtime.run("ping", "go")

    assert result.response == "pong gives up"
    assert heard == ["ping", "pong", "pong"]


async def test_every_run_counts_for_itself() -> None:
    """03/DB-7 loop guard: in one run; the next may hand over again."""
    runtime, heard = ping_pong(max_handoffs=2)

    first = await runtime.run("ping", "go", thread="t")
    heard.clear()
    second = await runtime.run(input="again", thread="t")

    assert (first.response, second.response) == ("ping gives up", "ping gives up")
    assert heard == ["ping", "pong", "ping", "ping"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Agent("a", model="demo", max_handoffs=0), r"agent 'a': max_handoffs is 1 or more"),
        (lambda: HandoffPlugin(["b"], max_handoffs=0), "max_handoffs is 1 or more, not 0"),
        (lambda: HandoffPlugin(["b", Handoff("b")]), "two handoffs to 'b'"),
        (lambda: Agent("a", model="demo", handoffs=[7]), "an agent or its id, not 7"),  # type: ignore[list-item]
        (
            lambda: Handoff("b", input_filter="none"),  # type: ignore[arg-type]
            "'b': input_filter is 'all', 'since_handoff' or a function.*'none'",
        ),
    ],
)
def test_what_cannot_work_is_refused_at_once(make: Callable[[], object], text: str) -> None:
    """Bad input: the text names the thing and says what is allowed."""
    with pytest.raises(ConfigError, match=text):
        make()


# -- requests from code -----------------------------------------------------------------------


class AtRunEnd:
    """Asks for an agent when a run ends: too late for that run."""

    id = "at-run-end"

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.RUN_END, self._ask)

    async def _ask(self, _: PhaseContext) -> Command:
        return Command().update(HANDOFF, HandoffRequest(agent=self._agent))


async def test_a_pending_request_is_fulfilled_when_the_next_run_starts() -> None:
    """03/MH-3 RunStart syncs a pending request."""
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel(["a"]), handoffs=["b"], plugins=[AtRunEnd("b")]),
            Agent("b", model=ScriptedModel(["b here"])),
        ]
    )

    first = await runtime.run("a", "hello", thread="t")
    second = await runtime.run(input="and now?", thread="t")

    assert (first.response, second.response) == ("a", "b here")


@pytest.mark.parametrize("sequential", [True, False])
async def test_of_two_requests_in_one_step_the_later_one_counts(sequential: bool) -> None:
    """03/MH-3 a later request replaces an earlier one: one hand-over, to the last named."""
    turn = tool_calls_response(
        "", ("handoff", "c1", {"agent": "b"}), ("handoff", "c2", {"agent": "c"})
    )
    b, c = ScriptedModel([]), ScriptedModel(["c here"])
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel([turn]), handoffs=["b", "c"], sequential=sequential),
            Agent("b", model=b),
            Agent("c", model=c),
        ]
    )

    assert (await runtime.run("a", "hello")).response == "c here"
    assert b.calls == 0


async def test_clearing_hands_the_conversation_back_to_where_it_began() -> None:
    """03/DB-7: `clear` switches back, however many agents have had it since."""

    @tool(effect="read")
    async def go_home() -> ToolOutput:
        """Give the conversation back."""
        return ToolOutput("home", Command().update(HANDOFF, Clear()))

    c = ScriptedModel([tool_call_response("", "go_home", "x", {})])
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel([to("b"), "a again", "still a"]), handoffs=["b"]),
            Agent("b", model=ScriptedModel([to("c", "h2")]), handoffs=["c"]),
            Agent("c", model=c, tools=[go_home], plugins=[HandoffPlugin()]),
        ]
    )

    result = await runtime.run("a", "hello", thread="t")

    assert result.response == "a again"
    assert (await runtime.run(input="who?", thread="t")).response == "still a"


async def test_leaving_an_agent_forgets_nothing() -> None:
    """03/MH-3 "deactivation clears both keys" does not hold: 03/DB-7 wins, the switch is kept."""
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel([to("b")]), handoffs=["b"]),
            Agent("b", model=ScriptedModel(["b here"])),
        ]
    )

    await runtime.run("a", "hello", thread="t")

    context = await runtime.store.load_context("t")
    assert context is not None
    kept = context.thread_state.extensions
    assert kept[ACTIVE_AGENT.name] == "b"
    assert kept[HANDOFF.name]["active_agent"] == "b"
    assert kept[HANDOFF.name]["requested_agent"] is None


# -- who it was -------------------------------------------------------------------------------


class Watcher:
    """Writes down as whom each phase was run."""

    id = "watcher"

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str]] = []

    def register(self, registrar: Registrar) -> None:
        for phase in (Phase.BEFORE_INFERENCE, Phase.STEP_END, Phase.RUN_END):
            registrar.hook(phase, self._hear)

    async def _hear(self, ctx: PhaseContext) -> None:
        self.heard.append((ctx.phase.value, ctx.agent_spec.id, ctx.run_identity.agent_id))


async def test_everything_is_attributed_to_who_speaks() -> None:
    """03/DB-7 correct attribution, 02/8.20: hooks, tools, events and the record follow."""
    as_whom: list[str] = []

    @tool(effect="read")
    async def look(ctx: ToolCallContext) -> str:
        """Look."""
        as_whom.append(ctx.run_identity.agent_id)
        return "seen"

    watcher, sink = Watcher(), CollectingSink()
    a = ScriptedModel(
        [tool_calls_response("", ("look", "c1", {}), ("handoff", "h", {"agent": "b"}))], name="m-a"
    )
    b = ScriptedModel([tool_call_response("", "look", "c2", {}), "done"], name="m-b")
    runtime = Runtime(
        [
            Agent("a", model=a, tools=[look], handoffs=["b"], plugins=[watcher]),
            Agent("b", model=b, tools=[look], plugins=[watcher]),
        ]
    )

    result = await runtime.run("a", "hello", thread="t", sink=sink)

    assert as_whom == ["a", "b"]
    assert all(spec == identity for _, spec, identity in watcher.heard)
    assert [(phase, who) for phase, who, _ in watcher.heard] == [
        ("before_inference", "a"),
        ("step_end", "a"),
        ("before_inference", "b"),
        ("step_end", "b"),
        ("before_inference", "b"),
        ("step_end", "b"),
        ("run_end", "b"),
    ]
    told = [envelope.event for envelope in sink.events()]
    (start,) = (event for event in told if isinstance(event, RunStart))
    (finish,) = (event for event in told if isinstance(event, RunFinish))
    assert start.identity is not None
    assert finish.identity is not None
    assert (start.identity.agent_id, finish.identity.agent_id) == ("a", "b")
    assert [e.model for e in told if isinstance(e, InferenceComplete)] == ["m-a", "m-b", "m-b"]
    record = await runtime.find_run(result.run_id)
    assert record is not None
    assert (record.agent_id, record.run_id) == ("b", finish.identity.run_id)


async def test_messages_belong_to_one_run_and_to_the_step_of_their_agent() -> None:
    """02/8.5, 03/DB-7: the log says run and step; who spoke in which step follows from it."""
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel([to("b", text="one moment")]), handoffs=["b"]),
            Agent("b", model=ScriptedModel(["b here"])),
        ]
    )

    result = await runtime.run("a", "hello", thread="t")

    made = [m for m in await runtime.messages("t") if m.role is not Role.USER]
    assert [(m.text(), m.metadata and m.metadata.step_index) for m in made] == [
        ("one moment", 0),
        ("The conversation is handed to b.", 0),
        ("b here", 1),
    ]
    assert {m.produced_by_run_id() for m in made} == {result.run_id}


async def test_a_run_that_goes_on_after_a_question_starts_as_who_asked() -> None:
    """03/DB-7 correct attribution: what is told of a resumed run names the agent that has it."""

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    sink = CollectingSink()
    b = ScriptedModel([tool_call_response("", "pay", "c1", {}), "done"])
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel([to("b")]), handoffs=["b"]),
            Agent("b", model=b, tools=[pay]),
        ]
    )
    await runtime.run("a", "hello", thread="t")

    await runtime.run(thread="t", answers=await by_id(runtime, {"c1": True}), sink=sink)

    starts = [e.event for e in sink.events() if isinstance(e.event, RunStart)]
    assert [start.identity and start.identity.agent_id for start in starts] == ["b"]
