"""What an agent sees of a conversation that was handed to it (03/DB-7 input filter)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from handoff_kit import seen, texts, to

from answer_kit import by_id
from awaken import Agent, Command, ContextMessage, Message, Phase, PhaseContext, Registrar, Runtime
from awaken.core.message import Role
from awaken.core.spec import AgentSpec
from awaken.core.state.command import ADD_CONTEXT_MESSAGE
from awaken.core.tool import ToolDescriptor
from awaken.errors import ConfigError
from awaken.ext.handoff import Handoff, HandoffInputPlugin, HandoffPlugin, InputFilter
from awaken.testing import ScriptedModel, tool_call_response, tool_calls_response
from awaken.testing.models import Response
from awaken.tool import tool

pytestmark = pytest.mark.anyio

HANDED = "The conversation is handed to b."


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


def two(
    chosen: InputFilter, b: Sequence[Response], *, a: Sequence[Response] = (), **options: object
) -> tuple[Runtime, ScriptedModel]:
    """Two agents; the first has said something before it hands over."""
    script = a or ("first answer", tool_call_response("", "look", "c1", {}), to("b", text="wait"))
    model = ScriptedModel(b)
    way = Handoff("b", input_filter=chosen, returns=True)
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel(script), tools=[look], handoffs=[way]),
            Agent("b", model=model, **options),  # type: ignore[call-overload]
        ]
    )
    return runtime, model


async def talk(runtime: Runtime) -> None:
    await runtime.run("a", "first question", thread="t")
    await runtime.run("a", "second question", thread="t")


LAST_TURN = ["second question", "", "seen", "wait", HANDED]


async def test_by_default_the_whole_conversation_is_seen() -> None:
    """03/DB-7 input filter `all`."""
    runtime, b = two("all", ["b here"])

    await talk(runtime)

    assert seen(b.requests[0]) == ["first question", "first answer", *LAST_TURN]


async def test_since_the_handoff_means_the_turn_that_led_to_it() -> None:
    """03/DB-7 input filter `since_handoff`: the question is seen, what was before it is not."""
    runtime, b = two("since_handoff", ["b here", "b again"])

    await talk(runtime)
    await runtime.run(input="third question", thread="t")

    assert seen(b.requests[0]) == LAST_TURN
    assert seen(b.requests[1]) == [*LAST_TURN, "b here", "third question"]


async def test_the_log_stays_as_it_is() -> None:
    """03/DB-7, design §8: a filter is a view; the raw log has everything."""
    runtime, _ = two("since_handoff", ["b here"])

    await talk(runtime)

    assert texts(await runtime.messages("t")) == [
        "first question",
        "first answer",
        *LAST_TURN,
        "b here",
    ]


async def test_a_function_chooses_what_is_seen_of_the_time_before() -> None:
    """03/DB-7 input filter, a function: it may also put something else in the place."""
    given: list[list[str]] = []

    def sum_up(before: Sequence[Message]) -> list[Message]:
        given.append(texts(before))
        return [Message.user(f"{len(before)} messages before")]

    call = tool_call_response("", "look", "c9", {})
    runtime, b = two(sum_up, [call, "b here", "b again"], tools=[look])

    await talk(runtime)

    before = ["first question", "first answer", *LAST_TURN]
    assert seen(b.requests[0]) == ["7 messages before"]
    assert seen(b.requests[1]) == ["7 messages before", "", "seen"]
    assert given == [before], "asked once a run: what was before does not change"
    await runtime.run(input="third question", thread="t")
    assert seen(b.requests[2]) == ["7 messages before", "", "seen", "b here", "third question"]
    assert given == [before, before]


def roles(*wanted: Role) -> Callable[[Sequence[Message]], list[Message]]:
    return lambda before: [message for message in before if message.role in wanted]


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        (roles(Role.USER, Role.ASSISTANT), ["q", "two calls"]),
        (roles(Role.USER, Role.TOOL), ["q"]),
        (lambda before: [m for m in before if m.text() != "seen"], ["q", "two calls", HANDED]),
        (lambda before: [], []),
    ],
)
async def test_no_call_is_seen_without_its_result_nor_a_result_without_its_call(
    chosen: InputFilter, left: list[str]
) -> None:
    """03/DB-7: a filter that tears a turn apart does not make a request no provider takes."""
    turn = tool_calls_response("two calls", ("look", "c1", {}), ("handoff", "c2", {"agent": "b"}))
    runtime, b = two(chosen, ["b here"], a=[turn])

    await runtime.run("a", "q")

    request = b.requests[0]
    assert seen(request) == left
    calls = [call.id for message in request.messages for call in message.tool_calls or ()]
    results = [m.tool_call_id for m in request.messages if m.role is Role.TOOL]
    assert calls == results


async def test_an_agent_that_was_asked_directly_sees_everything() -> None:
    """03/DB-7 input filter: it is about hand-overs; a name in a request is none."""
    runtime, b = two("since_handoff", ["b here"])
    await runtime.run("a", "first question", thread="t")

    await runtime.run("b", "hello", thread="t")

    assert seen(b.requests[0]) == ["first question", "first answer", "hello"]


async def test_whoever_gave_it_away_sees_all_of_it_again() -> None:
    """03/DB-7 return path: the filter was for the other; it is the first agent's conversation."""
    a = ScriptedModel([to("b"), "back"])
    runtime = Runtime(
        [
            Agent("a", model=a, handoffs=[Handoff("b", input_filter=lambda _: [], returns=True)]),
            Agent("b", model=ScriptedModel([to("a", "h2", "b was here")])),
        ]
    )

    await runtime.run("a", "hello")

    assert seen(a.requests[1]) == [
        "hello",
        "",
        HANDED,
        "b was here",
        "The conversation is handed to a.",
    ]


async def test_after_an_excursion_an_agent_sees_what_it_saw_before() -> None:
    """03/DB-7: to C and back is not a new hand-over from A; B's own part stays in sight."""
    b = ScriptedModel([to("c", "h2", "b asks c"), "b answers"])
    runtime = Runtime(
        [
            Agent(
                "a",
                model=ScriptedModel(["old answer", to("b")]),
                handoffs=[Handoff("b", input_filter="since_handoff")],
            ),
            Agent("b", model=b, handoffs=[Handoff("c", returns=True)]),
            Agent("c", model=ScriptedModel([to("b", "h3", "c knows")])),
        ]
    )

    await runtime.run("a", "old question", thread="t")
    await runtime.run("a", "new question", thread="t")

    assert seen(b.requests[0]) == ["new question", "", HANDED]
    assert seen(b.requests[1]) == [
        *seen(b.requests[0]),
        "b asks c",
        "The conversation is handed to c.",
        "c knows",
        HANDED,
    ]


async def test_who_hands_over_decides_which_filter_counts() -> None:
    """03/DB-7: a filter belongs to the way, not to the agent at its end."""
    c = ScriptedModel(["from a", "from b"])
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel(["x", to("c")]), handoffs=["c"]),
            Agent(
                "b",
                model=ScriptedModel(["y", to("c")]),
                handoffs=[Handoff("c", input_filter="since_handoff")],
            ),
            Agent("c", model=c),
        ]
    )

    for agent in ("a", "b"):
        await runtime.run(agent, "before", thread=agent)
        await runtime.run(agent, "now", thread=agent)

    assert seen(c.requests[0])[0] == "before"
    assert seen(c.requests[1])[0] == "now"


class Reminds:
    """Puts words around the conversation."""

    id = "reminds"

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.BEFORE_INFERENCE, self._remind)

    async def _remind(self, _: PhaseContext) -> Command:
        message = ContextMessage.suffix_system("reminder", "be kind")
        return Command().schedule_action(ADD_CONTEXT_MESSAGE, message)


async def test_what_plugins_say_around_the_conversation_is_not_filtered() -> None:
    """03/DB-7: only the conversation is handed over; this step's own words stay."""
    runtime, b = two(lambda _: [], ["b here"], plugins=[Reminds()])

    await talk(runtime)

    assert seen(b.requests[0]) == ["be kind"]


class Shortens:
    """Leaves out the oldest message, as a context policy would."""

    id = "shortens"

    def register(self, registrar: Registrar) -> None:
        registrar.transform(self._shorten)

    def _shorten(
        self, messages: Sequence[Message], _: Sequence[ToolDescriptor]
    ) -> Sequence[Message]:
        return messages[1:]


async def test_a_filter_does_not_bring_back_what_was_left_out_before_it() -> None:
    """03/DB-7: transforms come one after another, each with what the one before has left."""
    runtime, b = two(lambda before: before, ["b here"], plugins=[Shortens()])

    await talk(runtime)

    assert seen(b.requests[0]) == ["first answer", *LAST_TURN]


async def test_two_threads_of_one_agent_do_not_mix() -> None:
    """03/DB-7: where a run's hand-over was is its own."""
    model = ScriptedModel(["one", "two", "one again"])
    runtime = Runtime(
        [
            Agent(
                "a",
                model=ScriptedModel([to("b", text="for x"), to("b", text="for y")]),
                handoffs=[Handoff("b", input_filter="since_handoff")],
            ),
            Agent("b", model=model),
        ]
    )

    await runtime.run("a", "x", thread="x")
    await runtime.run("a", "y", thread="y")
    await runtime.run(input="more", thread="x")

    assert [seen(request)[:2] for request in model.requests] == [
        ["x", "for x"],
        ["y", "for y"],
        ["x", "for x"],
    ]


async def test_a_late_result_of_the_turn_that_hands_over_is_not_torn_from_its_call() -> None:
    """03/DB-7: it came after the hand-over, and stands beside a call from before."""

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    turn = tool_calls_response("", ("handoff", "c1", {"agent": "b"}), ("pay", "c2", {}))
    b = ScriptedModel(["b here"])
    runtime = Runtime(
        [
            Agent(
                "a",
                model=ScriptedModel(["old answer", turn]),
                tools=[pay],
                handoffs=[Handoff("b", input_filter="since_handoff")],
            ),
            Agent("b", model=b),
        ]
    )
    await runtime.run("a", "old question", thread="t")
    await runtime.run("a", "pay, then b", thread="t")

    result = await runtime.run(thread="t", answers=await by_id(runtime, {"c2": True}))

    assert result.response == "b here"
    assert seen(b.requests[0]) == ["pay, then b", "", HANDED, "paid"]


def test_an_agent_given_as_data_cannot_be_filtered() -> None:
    """Bad input: who, to whom, and what to do."""
    spec = AgentSpec(id="b", model_id="m", system_prompt="")

    with pytest.raises(ConfigError, match=r"'a' hands over to 'b'.*make it an Agent"):
        Runtime(
            [Agent("a", model="demo", handoffs=[Handoff("b", returns=True)]), spec],
            models={"m": ScriptedModel([])},
        )


async def test_agents_given_as_data_name_the_plugins_themselves() -> None:
    """03/DB-7: the same through the registries, without the front door's agents."""
    b = ScriptedModel(["b here"])
    runtime = Runtime(
        [
            AgentSpec(id="a", model_id="m-a", system_prompt="", plugin_ids=("agent_handoff",)),
            AgentSpec(
                id="b", model_id="m-b", system_prompt="", plugin_ids=("agent_handoff_input",)
            ),
        ],
        plugins=[HandoffPlugin(["b"]), HandoffInputPlugin({"a": "since_handoff"})],
        models={"m-a": ScriptedModel(["old answer", to("b")]), "m-b": b},
    )

    await runtime.run("a", "old question", thread="t")
    await runtime.run("a", "new question", thread="t")

    assert seen(b.requests[0]) == ["new question", "", HANDED]
