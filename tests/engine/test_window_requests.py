"""What requests of agents with a context policy hold, and what a provider's cache can do with them
(02 §7.1, 02/DB-28, DB-29, DB-34)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from awaken import Agent, Command, Message, Phase, PhaseContext, Registrar, Runtime, tool
from awaken.codec import dumps_text, loads
from awaken.core.context_message import ContextMessage
from awaken.core.inference import ContextWindowPolicy, StreamResult, TokenUsage
from awaken.core.llm import ContextOverflow, InferenceRequest, ModelAbilities, ProviderError
from awaken.core.message import Role
from awaken.core.spec import AgentSpec, ModelSpec
from awaken.core.state.command import (
    ADD_CONTEXT_MESSAGE,
    EXCLUDE_TOOL,
    INCLUDE_ONLY_TOOLS,
)
from awaken.core.state.run_keys import CONTEXT_WINDOW
from awaken.core.tool_context import Tool
from awaken.core.window import DEFAULT_COUNTER, TokenCounter
from awaken.errors import ConfigError, InferenceFailed
from awaken.ext.handoff import Handoff
from awaken.models.anthropic.request import prepare
from awaken.models.openai.chat_request import chat_body
from awaken.models.openai.providers import OPENAI
from awaken.runtime.builder import AgentRuntimeBuilder
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, ScriptedModel, text_response, tool_call_response
from awaken.testing.models import FunctionAnswer
from awaken.worker.request import RunRequest

pytestmark = pytest.mark.anyio

LONG = "word " * 80
SMALL = ContextWindowPolicy.of(2_000, max_output_tokens=500, min_recent_messages=2)

Answer = Callable[[InferenceRequest], FunctionAnswer]


class Listening(FunctionModel):
    """Answers as it is told to, and keeps what it was asked."""

    def __init__(self, answer: Answer = lambda _: LONG) -> None:
        super().__init__(self._heard, name="listening")
        self.requests: list[InferenceRequest] = []
        self._answer = answer

    def _heard(self, request: InferenceRequest) -> FunctionAnswer:
        self.requests.append(msgspec.structs.replace(request, messages=tuple(request.messages)))
        return self._answer(request)


def looking() -> Tool:
    @tool(effect="read")
    async def look() -> str:
        """Look around."""
        return "seen " * 20

    return look


def look_times(times: int) -> Answer:
    """Look around so many times, then answer whatever is asked."""
    left = iter(range(times))

    def answer(_: InferenceRequest) -> FunctionAnswer:
        number = next(left, None)
        return "so" if number is None else tool_call_response("on", "look", f"c{number}", {})

    return answer


def tokens(request: InferenceRequest) -> int:
    return sum(DEFAULT_COUNTER.message(message) for message in request.messages)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text() for message in messages]


# -- caches -----------------------------------------------------------------------------------


def body_text(request: InferenceRequest) -> tuple[str, str]:
    """What is sent to OpenAI before the conversation, and the conversation, as bytes."""
    body = chat_body(request, OPENAI, "openai")
    messages = body.pop("messages")
    return dumps_text(body), "".join(dumps_text(message) + "\n" for message in messages)


async def test_requests_of_consecutive_steps_begin_alike_byte_for_byte() -> None:
    """02/DB-29: what OpenAI's cache needs, which goes by the prefix; also over runs."""
    model = Listening(look_times(5))
    agent = Agent("a", model=model, system_prompt="Be brief.", tools=[looking()])
    runtime = Runtime([agent])
    for text in ("go", "and?", "well"):
        await runtime.run("a", text, thread="t")

    assert len(model.requests) > 5
    for before, after in pairwise(model.requests):
        (head, said), (next_head, next_said) = body_text(before), body_text(after)
        assert head == next_head
        assert next_said.startswith(said)
        assert len(next_said) > len(said)


async def test_a_window_that_is_cut_keeps_its_beginning_for_many_runs() -> None:
    """02/DB-29: it is not cut anew for every request."""
    model = Listening()
    runtime = Runtime([Agent("a", model=model, context_policy=SMALL)])
    for number in range(60):
        await runtime.run("a", f"{number} {LONG}", thread="t")

    alike = [
        body_text(after)[1].startswith(body_text(before)[1])
        for before, after in pairwise(model.requests)
    ]
    assert alike.count(False) <= 20
    assert max(tokens(request) for request in model.requests) <= 1500


async def test_context_at_the_end_leaves_the_beginning_as_it_was() -> None:
    """02 §7.2: what comes and goes stands last, so it spoils nothing before it."""

    class Clock:
        id = "clock"

        def register(self, registrar: Registrar) -> None:
            registrar.hook(Phase.STEP_START, self.tell)

        async def tell(self, ctx: PhaseContext) -> Command:
            now = ContextMessage.suffix_system("now", f"it is {len(ctx.messages)} o'clock")
            return Command().schedule_action(ADD_CONTEXT_MESSAGE, now)

    model = Listening(look_times(4))
    agent = Agent("a", model=model, tools=[looking()], plugins=[Clock()])
    await Runtime([agent]).run("a", "go", thread="t")

    assert len(model.requests) > 3
    for before, after in pairwise(model.requests):
        assert "o'clock" in before.messages[-1].text()
        assert after.messages[: len(before.messages) - 1] == before.messages[:-1]


def unmarked(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}


async def test_anthropic_is_told_to_cache_what_stays() -> None:
    """02/DB-29: marks at the end of tools, prompt and stable turns, which the next request has in
    the same place."""
    model = Listening(look_times(5))
    agent = Agent("a", model=model, system_prompt="Be brief.", tools=[looking()])
    runtime = Runtime([agent])
    await runtime.run("a", "go", thread="t")

    sent = [
        loads(
            dumps_text(
                prepare(msgspec.structs.replace(r, upstream_model="claude-sonnet-4-5")).options
            )
        )
        for r in model.requests
    ]
    for before, after in pairwise(sent):
        assert before["tools"] == after["tools"]
        assert before["system"] == after["system"]
        assert "cache_control" in before["tools"][-1]
        assert "cache_control" in before["system"][-1]
        marks = [
            (at, place)
            for at, message in enumerate(before["messages"])
            for place, block in enumerate(message["content"])
            if "cache_control" in block
        ]
        assert marks
        at, place = marks[-1]
        assert "cache_control" in after["messages"][at]["content"][place], "found by the next one"
        for one, other in zip(before["messages"], after["messages"], strict=False):
            assert [unmarked(b) for b in one["content"]] == [unmarked(b) for b in other["content"]]


async def test_the_hint_can_be_switched_off() -> None:
    model = Listening()
    off = msgspec.structs.replace(SMALL, enable_prompt_cache=False)
    await Runtime([Agent("a", model=model, context_policy=off)]).run("a", "hi")
    await Runtime([Agent("b", model=model)]).run("b", "hi")

    assert [request.enable_prompt_cache for request in model.requests] == [False, True]


# -- limits -----------------------------------------------------------------------------------


async def test_no_request_is_longer_than_the_policy_allows() -> None:
    """02 §7.1: prompt, tools and context count as well."""
    model = Listening()
    agent = Agent("a", model=model, system_prompt=LONG, tools=[looking()], context_policy=SMALL)
    runtime = Runtime([agent])
    for number in range(40):
        await runtime.run("a", f"{number} {LONG}", thread="t")

    fixed = DEFAULT_COUNTER.text(LONG) + DEFAULT_COUNTER.tool(looking().descriptor())
    most = max(tokens(request) for request in model.requests)
    assert 800 < most <= 1500 - fixed
    assert all(
        request.messages[-1].text().startswith(str(n)) for n, request in enumerate(model.requests)
    )


async def test_an_agent_without_a_policy_shows_everything() -> None:
    model = Listening()
    runtime = Runtime([Agent("a", model=model)])
    for number in range(40):
        await runtime.run("a", f"{number} {LONG}", thread="t")

    assert len(model.requests[-1].messages) == 79


class Able(Listening):
    def abilities(self, upstream_model: str) -> ModelAbilities:
        return ModelAbilities(context_window=1_000, max_output_tokens=200)


async def test_the_policy_is_held_within_what_the_model_says_it_can_do() -> None:
    """02 §7.1: clamp to the model's limits."""
    model = Able()
    policy = ContextWindowPolicy.of(100_000, min_recent_messages=2)
    runtime = Runtime([Agent("a", model=model, context_policy=policy)])
    for _ in range(20):
        await runtime.run("a", LONG, thread="t")

    assert max(tokens(request) for request in model.requests) <= 800


async def test_the_policy_is_held_within_what_is_declared_for_the_model() -> None:
    """02 §7.1: the same for a model whose limits somebody has written down."""
    model = Listening()
    policy = ContextWindowPolicy.of(100_000, min_recent_messages=2)
    spec = AgentSpec(id="a", model_id="m", system_prompt="", context_policy=policy)
    declared = ModelSpec(
        id="m", provider_id="p", upstream_model="up", context_window=900, max_output_tokens=100
    )
    builder = AgentRuntimeBuilder().with_agent_spec(spec).with_model_binding(declared)
    runtime = builder.with_provider("p", model).with_thread_run_store(MemoryStore()).build()
    for _ in range(20):
        await runtime.run(RunRequest(thread_id="t", agent_id="a", messages=(Message.user(LONG),)))

    assert max(tokens(request) for request in model.requests) <= 800


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({"max_context_tokens": 0}, "max_context_tokens is 1 or more"),
        ({"max_output_tokens": 2_000}, "leaves no room"),
        ({"min_recent_messages": -1}, "min_recent_messages is 0 or more"),
        ({"autocompact_threshold": 0}, "autocompact_threshold is 1 or more"),
        ({"max_messages": 0}, "max_messages is 1 or more"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(changes: dict[str, int], about: str) -> None:
    policy = msgspec.structs.replace(SMALL, **changes)

    with pytest.raises(ConfigError, match=about):
        Agent("a", model=Listening(), context_policy=policy)


# -- when guesses are wrong -------------------------------------------------------------------


async def test_what_the_provider_counts_corrects_the_guess() -> None:
    """02/DB-34: calibrated by reported usage, from the next request on and in the next run."""

    def answer(request: InferenceRequest) -> StreamResult:
        return text_response(LONG, TokenUsage(prompt_tokens=3 * tokens(request)))

    model, store = Listening(answer), MemoryStore()
    runtime = Runtime([Agent("a", model=model, context_policy=SMALL)], store=store)
    for _ in range(30):
        await runtime.run("a", LONG, thread="t")

    most = max(3 * tokens(request) for request in model.requests[5:])
    assert 900 < most <= 1500
    state = (await store.load_thread_state("t")).extensions[CONTEXT_WINDOW.name]
    assert 2.7 < CONTEXT_WINDOW.load(state).factor < 3.3


async def test_a_guess_that_is_good_enough_is_not_written_down() -> None:
    """Design §4: a step writes what is new in it."""

    def answer(request: InferenceRequest) -> StreamResult:
        return text_response(LONG, TokenUsage(prompt_tokens=int(1.05 * tokens(request))))

    store = MemoryStore()
    policy = ContextWindowPolicy.of(100_000)
    runtime = Runtime([Agent("a", model=Listening(answer), context_policy=policy)], store=store)
    for _ in range(10):
        await runtime.run("a", LONG, thread="t")

    assert CONTEXT_WINDOW.name not in (await store.load_thread_state("t")).extensions


async def test_a_counter_of_ones_own_can_be_plugged_in() -> None:
    """02/DB-34: pluggable."""

    class Letters(TokenCounter):
        def text(self, text: str) -> int:
            return len(text)

    class Counting:
        id = "counting"

        def register(self, registrar: Registrar) -> None:
            registrar.service(TokenCounter, Letters())

    model = Listening()
    agent = Agent("a", model=model, context_policy=SMALL, plugins=[Counting()])
    runtime = Runtime([agent])
    for _ in range(20):
        await runtime.run("a", LONG, thread="t")

    assert max(sum(map(len, texts(request.messages))) for request in model.requests) <= 1500


def overflowing(limit: int) -> Answer:
    def answer(request: InferenceRequest) -> FunctionAnswer:
        if 2 * tokens(request) > limit:
            raise ContextOverflow("too long")
        return LONG

    return answer


async def test_a_request_that_was_too_long_is_tried_once_more_with_less() -> None:
    """02 §7.1: then the run goes on, and the next requests are short enough at once."""
    model = Listening(overflowing(2_000))
    runtime = Runtime([Agent("a", model=model, context_policy=SMALL)])
    for number in range(20):
        result = await runtime.run("a", f"{number} {LONG}", thread="t")
        assert result.response == LONG
        assert model.requests[-1].messages[-1].text().startswith(f"{number} word")

    asked_again = len(model.requests) - 20
    assert 0 < asked_again <= 2


async def test_the_second_try_is_the_last() -> None:
    """02 §7.1: then the error; at once, if there is nothing to leave out."""
    answers = iter([LONG, LONG])

    def answer(request: InferenceRequest) -> FunctionAnswer:
        text = next(answers, None)
        if text is None:
            raise ContextOverflow("too long")
        return text

    model = Listening(answer)
    runtime = Runtime([Agent("a", model=model, context_policy=SMALL)])
    for _ in range(2):
        await runtime.run("a", LONG, thread="t")
    for thread in ("t", "new"):
        with pytest.raises(InferenceFailed, match="context overflow"):
            await runtime.run("a", "hi", thread=thread)

    assert [len(request.messages) for request in model.requests] == [1, 3, 5, 2, 1]


async def test_other_errors_and_other_agents_are_left_as_they_are() -> None:
    def refuse(request: InferenceRequest) -> FunctionAnswer:
        raise ContextOverflow("too long")

    def fail(request: InferenceRequest) -> FunctionAnswer:
        raise ProviderError("down")

    free, down = Listening(refuse), Listening(fail)
    runtime = Runtime(
        [
            Agent("free", model=free),
            Agent("down", model=down, context_policy=SMALL, sections={"retry": {"max_retries": 0}}),
        ]
    )
    for agent in ("free", "down"):
        with pytest.raises(InferenceFailed):
            await runtime.run(agent, "hi")
    assert (len(free.requests), len(down.requests)) == (1, 1)


# -- long runs --------------------------------------------------------------------------------


async def test_the_task_stays_in_sight_of_a_run_of_many_steps() -> None:
    """02/X2: the user's message is as old as the run, and all the model is there for."""
    steps = 200
    model = Listening(look_times(steps))
    agent = Agent("a", model=model, tools=[looking()], max_rounds=0, context_policy=SMALL)
    await Runtime([agent]).run("a", "find it", thread="t")

    assert len(model.requests) == steps + 1
    for request in model.requests:
        assert request.messages[0].text() == "find it"
        assert tokens(request) <= 1500
        assert request.messages[-1].role is not Role.ASSISTANT


async def test_each_message_of_a_long_run_is_counted_a_few_times_at_most() -> None:
    """Design §1: a step costs the same, however long the run is."""

    class Tally(TokenCounter):
        counted = 0

        def message(self, message: Message) -> int:
            Tally.counted += 1
            return super().message(message)

    class Counting:
        id = "counting"

        def register(self, registrar: Registrar) -> None:
            registrar.service(TokenCounter, Tally())

    marks: list[int] = []
    look = look_times(1500)

    def answer(request: InferenceRequest) -> FunctionAnswer:
        marks.append(Tally.counted)
        return look(request)

    agent = Agent(
        "a",
        model=FunctionModel(answer),
        tools=[looking()],
        max_rounds=0,
        context_policy=SMALL,
        plugins=[Counting()],
    )
    await Runtime([agent]).run("a", "find it", thread="t")

    early, late = marks[500] - marks[200], marks[1500] - marks[1200]
    assert late <= early * 1.2
    assert late / 300 < 20, "a few messages a step"


# -- context messages and tools ---------------------------------------------------------------


class Telling:
    """Has the same said in every step, with a cooldown, and what it likes of tools."""

    id = "telling"

    def __init__(self, *messages: Callable[[int], ContextMessage], filters: bool = False) -> None:
        self._messages, self._filters = messages, filters

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.STEP_START, self.tell)
        registrar.hook(Phase.BEFORE_INFERENCE, self.choose)

    async def tell(self, ctx: PhaseContext) -> Command:
        command, step = Command(), sum(m.role is Role.ASSISTANT for m in ctx.messages)
        for made in self._messages:
            command.schedule_action(ADD_CONTEXT_MESSAGE, made(step))
        return command

    async def choose(self, _: PhaseContext) -> Command | None:
        if not self._filters:
            return None
        both = Command().schedule_action(INCLUDE_ONLY_TOOLS, ("look", "listen"))
        return both.schedule_action(EXCLUDE_TOOL, "look")


async def told_by(*messages: Callable[[int], ContextMessage]) -> list[list[str]]:
    """What the plugin has brought into each of seven requests."""
    model = Listening(look_times(6))
    agent = Agent(
        "a",
        model=model,
        tools=[looking()],
        plugins=[Telling(*messages)],
        context_policy=SMALL,
    )
    await Runtime([agent]).run("a", [Message.system("first"), "go"], thread="t")
    return [[t for t in texts(r.messages) if t.startswith("note")] for r in model.requests]


async def test_a_cooldown_skips_within_the_window() -> None:
    """02/X4: cooldown skips within the window, zero always injects."""
    each = await told_by(lambda _: ContextMessage.system("k", "note"))
    third = await told_by(lambda _: ContextMessage.system("k", "note", cooldown_turns=3))

    assert each == [["note"]] * 7
    assert third == [["note"], [], [], ["note"], [], [], ["note"]]


async def test_what_has_changed_is_told_at_once() -> None:
    """02/X4: changed content bypasses the cooldown."""
    told = await told_by(
        lambda step: ContextMessage.system("k", f"note {step // 2}", cooldown_turns=9)
    )

    assert told == [["note 0"], [], ["note 1"], [], ["note 2"], [], ["note 3"]]


async def test_each_target_has_its_place_in_a_request() -> None:
    """02/X4: target order system, conversation, user, suffix; behind a summary as well."""
    makers = (
        lambda _: ContextMessage.suffix_system("d", "suffix"),
        lambda _: ContextMessage.conversation("c", "conversation"),
        lambda _: ContextMessage.session("b", "session"),
        lambda _: ContextMessage.system("a", "system"),
    )
    for policy in (None, SMALL):
        model = Listening()
        agent = Agent("a", model=model, plugins=[Telling(*makers)], context_policy=policy)
        await Runtime([agent]).run("a", [Message.system("leading"), "hi"], thread="t")

        order = ["system", "leading", "session", "conversation", "hi", "suffix"]
        assert texts(model.requests[0].messages) == order


async def test_a_tool_that_is_excluded_is_not_offered_though_it_is_included() -> None:
    """02/X5: exclusions win over inclusions."""

    @tool(effect="read")
    async def listen() -> str:
        """Listen."""
        return "heard"

    @tool(effect="read")
    async def smell() -> str:
        """Smell."""
        return "smelled"

    model = Listening()
    agent = Agent(
        "a", model=model, tools=[looking(), listen, smell], plugins=[Telling(filters=True)]
    )
    await Runtime([agent]).run("a", "hi")

    assert [offered.id for offered in model.requests[0].tools] == ["listen"]


async def test_a_filter_of_a_hand_over_does_not_tear_what_the_window_has_shortened() -> None:
    """02/X5, 03/DB-7: the filter leaves a long result out, however the window shows it."""

    @tool(effect="read")
    async def read() -> str:
        """Read a lot."""
        return "line\n" * 2000

    script = ScriptedModel(
        [
            tool_call_response("", "read", "c1", {}),
            "read it",
            tool_call_response("", "handoff", "h1", {"agent": "b"}),
        ]
    )
    model = Listening(lambda _: "b here")
    way = Handoff("b", input_filter=lambda before: [m for m in before if m.role is Role.USER])
    policy = ContextWindowPolicy.of(1_000, max_output_tokens=100, min_recent_messages=1)
    runtime = Runtime(
        [
            Agent("a", model=script, tools=[read], handoffs=[way]),
            Agent("b", model=model, context_policy=policy),
        ]
    )
    for text in ("read", "give it to b"):
        await runtime.run("a", text, thread="t")

    assert texts(model.requests[0].messages) == ["read", "give it to b"]
