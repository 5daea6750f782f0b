"""What hooks and requests put into the next question to the model (01 §1.8, §1.10, §3.3, §3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from run_kit import Piece, record_of, told

from awaken import (
    Agent,
    Command,
    ContextMessage,
    InferenceOverride,
    Message,
    Phase,
    PhaseContext,
    Runtime,
    ToolDescriptor,
    tool,
)
from awaken.core.inference import ReasoningBudget
from awaken.core.message import Text
from awaken.core.state.command import (
    ADD_CONTEXT_MESSAGE,
    EXCLUDE_TOOL,
    INCLUDE_ONLY_TOOLS,
    SET_INFERENCE_OVERRIDE,
    ScheduledActionSpec,
)
from awaken.errors import InferenceFailed, PhaseError
from awaken.testing import ScriptedModel, tool_call_response
from awaken.testing.models import Response

pytestmark = pytest.mark.anyio


def schedules(
    id: str, spec: ScheduledActionSpec[Any], payload: Any, *, in_step: int | None = None
) -> Piece:
    """A plugin that schedules something in every step, or only in one (counted from 1)."""
    step = 0

    async def hook(_: PhaseContext) -> Command | None:
        nonlocal step
        step += 1
        return Command().schedule_action(spec, payload) if in_step in (None, step) else None

    return Piece(id, lambda r: r.hook(Phase.BEFORE_INFERENCE, hook))


@tool
async def look() -> str:
    """Look."""
    return "seen"


@tool
async def jump() -> str:
    """Jump."""
    return "jumped"


@tool
async def sing() -> str:
    """Sing."""
    return "sung"


LOOK: Response = tool_call_response("", "look", "c", {})


def setup(
    *plugins: Piece, steps: int = 1, model: ScriptedModel | None = None, **options: Any
) -> tuple[Runtime, ScriptedModel]:
    model = model or ScriptedModel([*[LOOK] * (steps - 1), "done"])
    agent = Agent("a", model=model, tools=[look, jump, sing], plugins=plugins, **options)
    return Runtime([agent]), model


# -- overrides --------------------------------------------------------------------------------


async def test_of_two_overrides_the_last_wins_field_by_field_and_none_leaks() -> None:
    """01/P-19: two plugins, one step; the next step starts from nothing."""
    runtime, model = setup(
        schedules(
            "one",
            SET_INFERENCE_OVERRIDE,
            InferenceOverride(temperature=0.1, max_tokens=10),
            in_step=1,
        ),
        schedules(
            "two", SET_INFERENCE_OVERRIDE, InferenceOverride(temperature=0.9, top_p=0.5), in_step=1
        ),
        steps=2,
    )

    await runtime.run("a", "go")

    assert model.requests[0].overrides == InferenceOverride(
        temperature=0.9, max_tokens=10, top_p=0.5
    )
    assert model.requests[1].overrides is None


async def test_settings_of_a_run_reach_every_request() -> None:
    """01/A-10, 09 §2.3: above the step's and the agent's; the model's name moves to its place."""
    runtime, model = setup(
        schedules(
            "step",
            SET_INFERENCE_OVERRIDE,
            InferenceOverride(max_tokens=5, temperature=0.9, upstream_model="step-model"),
            in_step=2,
        ),
        steps=3,
        reasoning_effort="low",
    )

    await runtime.run(
        "a", "go", settings=InferenceOverride(temperature=0.2, upstream_model="run-model")
    )

    assert [request.upstream_model for request in model.requests] == ["run-model"] * 3
    plain = InferenceOverride(temperature=0.2, reasoning_effort="low")
    stepped = InferenceOverride(temperature=0.2, reasoning_effort="low", max_tokens=5)
    assert [request.overrides for request in model.requests] == [plain, stepped, plain]


async def test_an_agents_reasoning_effort_gives_way_to_the_runs() -> None:
    """01/A-10, 09 §2.3: agent < step < run."""
    runtime, model = setup(model=ScriptedModel(["one", "two"]), reasoning_effort="low")

    await runtime.run("a", "go")
    await runtime.run(
        "a", "go", settings=InferenceOverride(reasoning_effort=ReasoningBudget(budget=9))
    )

    efforts = [
        request.overrides and request.overrides.reasoning_effort for request in model.requests
    ]
    assert efforts == ["low", ReasoningBudget(budget=9)]


async def test_without_any_override_there_is_none() -> None:
    """01/A-10."""
    runtime, model = setup()

    await runtime.run("a", "go")

    assert model.requests[0].overrides is None
    assert model.requests[0].upstream_model == "scripted"


async def test_a_blank_model_in_an_override_is_refused() -> None:
    """01 §1.8, bad input: named, before the model is asked; the run is closed."""
    runtime, model = setup()

    with pytest.raises(InferenceFailed, match="upstream_model cannot be empty"):
        await runtime.run("a", "go", settings=InferenceOverride(upstream_model=" "))

    assert model.calls == 0
    [run] = await runtime.list_runs()
    assert run.status.value == "done"


# -- tools of one step ------------------------------------------------------------------------


def offered(model: ScriptedModel) -> list[list[str]]:
    return [[tool.id for tool in request.tools] for request in model.requests]


async def test_tools_are_filtered_for_one_step() -> None:
    """01 §3.3: the include lists are united, then exclusions apply; the next step has all."""
    runtime, model = setup(
        schedules("one", INCLUDE_ONLY_TOOLS, ("look",), in_step=1),
        schedules("two", INCLUDE_ONLY_TOOLS, ("jump", "sing"), in_step=1),
        schedules("three", EXCLUDE_TOOL, "jump", in_step=1),
        steps=2,
    )

    await runtime.run("a", "go")

    assert offered(model) == [["look", "sing"], ["jump", "look", "sing"]]


async def test_hooks_after_an_inference_see_what_was_offered() -> None:
    """01 §3.4: `effective_tool_ids`, the tools really offered."""
    seen: list[tuple[str, ...]] = []

    async def after(ctx: PhaseContext) -> None:
        seen.append(ctx.effective_tool_ids)

    runtime, _ = setup(
        schedules("one", EXCLUDE_TOOL, "jump"),
        Piece("after", lambda r: r.hook(Phase.AFTER_INFERENCE, after)),
    )

    await runtime.run("a", "go")

    assert seen == [("look", "sing")]


# -- context messages -------------------------------------------------------------------------


def texts(model: ScriptedModel) -> list[list[str]]:
    return [told(request.messages) for request in model.requests]


async def test_context_messages_stand_where_their_target_says() -> None:
    """01/P-20, §1.10: system before the history, session and conversation behind its leading
    system messages, suffix at the end; within a target by priority, then key."""
    messages = [
        ContextMessage.suffix_system("z", "suffix"),
        ContextMessage.conversation("c", "conversation"),
        ContextMessage.session("s", "session"),
        ContextMessage.system("b", "system b"),
        ContextMessage.system("a", "system a"),
        ContextMessage.system("late", "system late", priority=5),
    ]
    runtime, model = setup(
        *[schedules(message.key, ADD_CONTEXT_MESSAGE, message) for message in messages]
    )

    await runtime.run("a", [Message.system("leading"), "hello"], thread="t")

    assert texts(model) == [
        [
            "system: system a",
            "system: system b",
            "system: system late",
            "system: leading",
            "system: session",
            "user: conversation",
            "user: hello",
            "system: suffix",
        ]
    ]
    assert told(await runtime.messages("t")) == [
        "system: leading",
        "user: hello",
        "assistant: done",
    ]


async def test_the_prompt_goes_ahead_of_context_messages() -> None:
    """01/P-20: they stand behind the base prompt, which a request carries by itself."""
    runtime, model = setup(
        schedules("one", ADD_CONTEXT_MESSAGE, ContextMessage.system("k", "context")),
        system_prompt="Be brief.",
    )

    await runtime.run("a", "hello")

    assert model.requests[0].system == (Text(text="Be brief."),)
    assert texts(model) == [["system: context", "user: hello"]]


async def test_a_context_message_is_gone_after_its_step_unless_it_persists() -> None:
    """01/P-20: ephemeral removal; `emit_once` is told once, however often it is added."""
    runtime, model = setup(
        schedules("one", ADD_CONTEXT_MESSAGE, ContextMessage.system("e", "ephemeral"), in_step=1),
        schedules(
            "two",
            ADD_CONTEXT_MESSAGE,
            ContextMessage.system_persistent("p", "persistent"),
            in_step=1,
        ),
        schedules("three", ADD_CONTEXT_MESSAGE, ContextMessage.emit_once("o", "once"), in_step=1),
        steps=3,
    )

    await runtime.run("a", "hello")

    said = [[line for line in request if line.startswith("system")] for request in texts(model)]
    assert said == [
        ["system: ephemeral", "system: once", "system: persistent"],
        ["system: persistent"],
        ["system: persistent"],
    ]


@pytest.mark.parametrize(
    ("cooldown", "steps"), [(0, [1, 2, 3, 4, 5]), (2, [1, 3, 5]), (3, [1, 4]), (99, [1])]
)
async def test_a_context_message_keeps_its_cooldown(cooldown: int, steps: list[int]) -> None:
    """01/P-20: the throttle counts steps."""
    message = ContextMessage.system("k", "remember", cooldown_turns=cooldown)
    runtime, model = setup(schedules("one", ADD_CONTEXT_MESSAGE, message), steps=5)

    await runtime.run("a", "hello")

    said = [number for number, lines in enumerate(texts(model), 1) if "system: remember" in lines]
    assert said == steps


async def test_a_changed_context_message_does_not_wait() -> None:
    """01/P-20: the throttle compares contents; of one key the last stands."""
    old, new = (ContextMessage.system("k", text, cooldown_turns=9) for text in ("old", "new"))
    runtime, model = setup(
        schedules("one", ADD_CONTEXT_MESSAGE, old, in_step=1),
        schedules("two", ADD_CONTEXT_MESSAGE, new, in_step=2),
        schedules("three", ADD_CONTEXT_MESSAGE, new, in_step=3),
        steps=3,
    )

    await runtime.run("a", "hello")

    assert [lines[0] for lines in texts(model)] == ["system: old", "system: new", "user: hello"]


async def test_a_tool_may_schedule_for_the_next_request() -> None:
    """D-5: an action of `before_inference` scheduled anywhere is worked off there."""

    async def after(_: PhaseContext) -> Command:
        message = ContextMessage.suffix_system("hint", "look twice")
        return Command().schedule_action(ADD_CONTEXT_MESSAGE, message)

    runtime, model = setup(
        Piece("after", lambda r: r.hook(Phase.AFTER_TOOL_EXECUTE, after)), steps=2
    )

    result = await runtime.run("a", "hello")

    assert texts(model)[1][-1] == "system: look twice"
    record = await record_of(runtime, result.run_id)
    assert record.state is not None
    assert record.state.extensions["__runtime.pending_scheduled_actions"] == []


# -- transforms -------------------------------------------------------------------------------


async def test_transforms_chain_in_order_and_leave_the_log_alone() -> None:
    """01 §3.5: after context messages are placed and tools are filtered."""
    seen: list[tuple[int, list[str]]] = []

    def trim(messages: Sequence[Message], tools: Sequence[ToolDescriptor]) -> Sequence[Message]:
        seen.append((len(messages), [tool.id for tool in tools]))
        return messages[1:]

    def add(messages: Sequence[Message], _: Sequence[ToolDescriptor]) -> Sequence[Message]:
        return [*messages, Message.user("and be quick")]

    runtime, model = setup(
        schedules("one", ADD_CONTEXT_MESSAGE, ContextMessage.system("k", "context")),
        schedules("two", EXCLUDE_TOOL, "jump"),
        Piece("t", lambda r: r.transform(trim), lambda r: r.transform(add)),
    )

    await runtime.run("a", "hello", thread="t")

    assert seen == [(2, ["look", "sing"])]
    assert texts(model) == [["user: hello", "user: and be quick"]]
    assert told(await runtime.messages("t")) == ["user: hello", "assistant: done"]


async def test_a_transform_that_raises_ends_the_run_and_names_its_plugin() -> None:
    def broken(messages: Sequence[Message], _: Sequence[ToolDescriptor]) -> Sequence[Message]:
        raise ValueError("no idea")

    runtime, model = setup(Piece("rewriter", lambda r: r.transform(broken)))

    with pytest.raises(PhaseError, match=r"'rewriter' raised ValueError\('no idea'\)"):
        await runtime.run("a", "hello", thread="t")

    assert model.calls == 0
    assert told(await runtime.messages("t")) == ["user: hello"]
