"""Runs of every kind, each with the agents that made it, to be replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from answer_kit import by_id
from awaken import (
    RUN_LIFECYCLE,
    Agent,
    Block,
    Command,
    Done,
    FrontEndTool,
    Message,
    Phase,
    PhaseContext,
    Registrar,
    Runtime,
    ToolCallResume,
    ToolDescriptor,
    tool,
)
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import ContextWindowPolicy, StopReason, StreamResult, TokenUsage
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role, Text, Thinking
from awaken.core.spec import StopOnTool
from awaken.errors import AgentLoopError
from awaken.runtime.replay import Recording, read_recording
from awaken.stores.memory import MemoryStore
from awaken.testing import (
    FunctionModel,
    ScriptedModel,
    max_tokens_response,
    text_response,
    tool_call_response,
    tool_calls_response,
)
from awaken.testing.models import Response

DONE: list[str] = []
"""What tools did in the world."""


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    DONE.append(f"added {a} and {b}")
    return a + b


@tool
async def note(text: str) -> str:
    """Write down."""
    DONE.append(text)
    return f"noted: {text}"


@tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    DONE.append(f"paid {euros}")
    return f"paid {euros}"


@tool
async def lose() -> dict[str, Any]:
    """Fail."""
    DONE.append("lost")
    raise ValueError("nothing left")


colour = FrontEndTool(ToolDescriptor(id="colour", name="colour", description="Pick a colour."))


class Refuses:
    """Lets no payment through."""

    id = "refuses"

    def register(self, registrar: Registrar) -> None:
        registrar.gate(self.gate)

    async def gate(self, ctx: PhaseContext) -> Block | None:
        return Block(reason="no money today") if ctx.tool_name == "pay" else None


class EndsIt:
    """Ends the run after its first answer."""

    id = "ends-it"

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.AFTER_INFERENCE, self.end)

    async def end(self, ctx: PhaseContext) -> Command:
        return Command().update(RUN_LIFECYCLE, Done(reason="behavior_requested"))


Made = tuple[Recording, Sequence[Agent]]
Kind = Callable[[], Awaitable[Made]]


async def recorded(runtime: Runtime, thread: str = "t") -> Recording:
    """The latest run of a thread, once it is over."""
    latest = await runtime.store.latest_run(thread)
    assert latest is not None
    return await read_recording(runtime.store, latest.run_id)


async def made(
    *agents: Agent, ask: str = "Go", decide: Callable[[Any], Any] | None = None, **more: Any
) -> Made:
    async with Runtime(agents) as runtime:
        with suppress(AgentLoopError):  # it is recorded as it is
            await runtime.run(agents[0].id, ask, thread="t", on_approval=decide, **more)
        return await recorded(runtime), agents


async def plain_answer() -> Made:
    usage = TokenUsage(prompt_tokens=12, completion_tokens=3, cache_read_tokens=8)
    return await made(Agent("a", model=ScriptedModel([text_response("Hello.\nYou!", usage)])))


async def calls_of_every_outcome() -> Made:
    calls: tuple[tuple[str, str, Any], ...] = (
        ("add", "c1", {"a": 1, "b": 2}),
        ("note", "c2", {"text": "milk"}),
        ("lose", "c3", {}),
        ("add", "c4", {"a": "x"}),
        ("fly", "c5", {"far": True}),
    )
    model = ScriptedModel([tool_calls_response("Let me.", *calls), "Done."])
    return await made(Agent("a", model=model, tools=[add, note, lose]))


async def the_same_call_twice() -> Made:
    twice = [tool_call_response("", "note", "c", {"text": "milk"})] * 2
    return await made(Agent("a", model=ScriptedModel([*twice, "Twice."]), tools=[note]))


async def approvals_given_refused_and_changed() -> Made:
    answers = {
        7: ToolCallResume.approve(by="ann"),
        8: ToolCallResume.deny("too much"),
        9: ToolCallResume.edit({"euros": 1}),
    }
    calls = [tool_call_response("", "pay", "c1", {"euros": n}) for n in answers]
    agent = Agent("a", model=ScriptedModel([*calls, "Paid, some of it."]), tools=[pay])
    return await made(agent, decide=lambda ticket: answers[ticket.arguments["euros"]])


async def a_value_from_the_front_end() -> Made:
    model = ScriptedModel([tool_call_response("", "colour", "c1", {}), "Blue it is."])
    yes = ToolCallResume.approve({"name": "blue"})
    return await made(Agent("a", model=model, tools=[colour]), decide=lambda _: yes)


async def a_tool_of_the_client() -> Made:
    model = ScriptedModel([tool_call_response("", "colour", "c1", {}), "Blue it is."])
    yes = ToolCallResume.approve("blue")
    brought = [colour.descriptor()]
    return await made(Agent("a", model=model), decide=lambda _: yes, frontend_tools=brought)


async def blocked_by_a_gate() -> Made:
    model = ScriptedModel([tool_call_response("Paying.", "pay", "c1", {"euros": 7})])
    return await made(Agent("a", model=model, tools=[pay], plugins=[Refuses()]))


async def ended_by_a_plugin() -> Made:
    return await made(Agent("a", model=ScriptedModel(["Enough."]), plugins=[EndsIt()]))


async def stopped_after_so_many_rounds() -> Made:
    calls = [tool_call_response("", "add", f"c{n}", {"a": n, "b": n}) for n in range(3)]
    return await made(Agent("a", model=ScriptedModel(calls), tools=[add], max_rounds=2))


async def an_answer_that_stays_empty() -> Made:
    model = ScriptedModel(
        [tool_call_response("", "add", "c1", {"a": 1, "b": 1}), text_response(""), ""]
    )
    return await made(Agent("a", model=model, tools=[add]))


async def stopped_at_a_tool() -> Made:
    model = ScriptedModel([tool_call_response("Now.", "note", "c1", {"text": "x"})])
    stop = [StopOnTool(tool_name="note")]
    return await made(Agent("a", model=model, tools=[note], stop=stop))


async def a_model_that_fails() -> Made:
    broken: list[LlmStreamEvent | Exception] = [
        TextDelta(delta="I was ab"),
        RuntimeError("out of order"),
    ]
    model = ScriptedModel([tool_call_response("", "add", "c1", {"a": 1, "b": 1}), broken])
    return await made(Agent("a", model=model, tools=[add]))


async def an_answer_in_two_pieces() -> Made:
    model = ScriptedModel([max_tokens_response("It goes"), " on and on."])
    return await made(Agent("a", model=model))


async def a_call_cut_off_in_the_middle() -> Made:
    cut: list[LlmStreamEvent | Exception] = [
        ToolCallStart(id="x", name="note"),
        ToolCallDelta(id="x", args_delta='{"te'),
        Stop(reason=StopReason.MAX_TOKENS),
    ]
    whole = tool_call_response("", "note", "c1", {"text": "short"})
    return await made(Agent("a", model=ScriptedModel([cut, whole, "Done."]), tools=[note]))


async def answers_that_are_garbled() -> Made:
    silent = StreamResult(has_incomplete_tool_calls=True, stop_reason=StopReason.TOOL_USE)
    half = StreamResult(
        content=(Text(text="I try."),), has_incomplete_tool_calls=True, stop_reason=None
    )
    return await made(Agent("a", model=ScriptedModel([silent, half, silent, "Sorry."])))


async def reasoning_that_is_signed() -> Made:
    said = StreamResult(
        content=(
            Thinking(thinking="Hm.", signature="abc=", origin="anthropic"),
            Text(text="Yes."),
        ),
        usage=TokenUsage(prompt_tokens=1, completion_tokens=2, thinking_tokens=1),
        stop_reason=StopReason.END_TURN,
    )
    return await made(Agent("a", model=ScriptedModel([said])))


async def a_thread_with_a_history() -> Made:
    script: list[Response] = [
        tool_call_response("", "add", "c1", {"a": 1, "b": 2}),
        "Three.",
        "As I said.",
    ]
    agent = Agent("a", model=ScriptedModel(script), tools=[add])
    async with Runtime([agent]) as runtime:
        await runtime.run("a", "One and two?", thread="t")
        await runtime.run("a", "Sure?", thread="t")
        return await recorded(runtime), [agent]


async def a_word_in_between() -> Made:
    runtimes: list[Runtime] = []

    @tool
    async def look() -> str:
        """Look around."""
        await runtimes[0].send("t", [Message.user("Hurry!")])
        return "nothing here"

    script: list[Response] = [
        tool_call_response("", "look", "c1", {}),
        tool_call_response("", "add", "c2", {"a": 1, "b": 1}),
        "I hurried.",
    ]
    agent = Agent("a", model=ScriptedModel(script), tools=[look, add])
    async with Runtime([agent]) as runtime:
        runtimes.append(runtime)
        await runtime.run("a", "Look", thread="t")
        return await recorded(runtime), [agent]


async def a_message_instead_of_an_answer() -> Made:
    script: list[Response] = [
        tool_call_response("", "pay", "c1", {"euros": 7}),
        "Never mind, then.",
    ]
    agent = Agent("a", model=ScriptedModel(script), tools=[pay])
    async with Runtime([agent]) as runtime:
        await runtime.run("a", "Pay", thread="t")
        await runtime.run("a", "Forget it", thread="t")
        return await recorded(runtime), [agent]


async def answered_in_another_runtime() -> Made:
    store = MemoryStore()
    script: list[Response] = [
        tool_calls_response("", ("add", "c1", {"a": 1, "b": 1}), ("pay", "c2", {"euros": 7})),
        tool_call_response("", "pay", "c2", {"euros": 7}),
        "Paid, once.",
    ]
    agent = Agent("a", model=ScriptedModel(script), tools=[add, pay])
    for answer in (None, True, False):
        async with Runtime([agent], store=store) as runtime:
            if answer is None:
                await runtime.run("a", "Pay", thread="t")
            else:
                await runtime.run(thread="t", answers=await by_id(runtime, {"c2": answer}))
    return await recorded(runtime), [agent]


async def handed_over() -> Made:
    clerk = Agent("clerk", model=ScriptedModel(["I am the clerk."]))
    host = Agent(
        "host",
        model=ScriptedModel([tool_call_response("", "handoff", "c1", {"agent": "clerk"})]),
        handoffs=[clerk],
    )
    return await made(host, clerk)


async def a_task_for_a_delegate() -> Made:
    ask = {"prompt": "How many?"}
    clerk = Agent(
        "clerk",
        model=ScriptedModel([tool_call_response("", "pay", "c1", {"euros": 3}), "Twelve."]),
        tools=[pay],
    )
    boss = Agent(
        "boss",
        model=ScriptedModel([tool_call_response("", "agent_run_clerk", "c1", ask), "Twelve!"]),
        delegates=[clerk],
    )
    return await made(boss, clerk, decide=lambda _: True)


async def a_task_in_the_background() -> Made:
    @tool(effect="read")
    async def research() -> str:
        """Find out."""
        await asyncio.sleep(0)
        return "old"

    script: list[Response] = [
        tool_call_response("", "research", "c1", {}),
        "I look into it.",
        "It is old.",
    ]
    agent = Agent("a", model=ScriptedModel(script), background=[research])
    async with Runtime([agent]) as runtime:
        await runtime.run("a", "How old?", thread="t")
        await runtime.wait("t", timeout=20)
        return await recorded(runtime), [agent]


async def cancelled_while_a_tool_ran() -> Made:
    runtimes: list[Runtime] = []

    @tool
    async def stall() -> None:
        """Never ends."""
        await runtimes[0].cancel("t", deadline=0)
        await asyncio.Event().wait()

    script: list[Response] = [
        tool_calls_response("", ("add", "c1", {"a": 1, "b": 1}), ("stall", "c2", {}))
    ]
    agent = Agent("a", model=ScriptedModel(script), tools=[add, stall], sequential=True)
    async with Runtime([agent]) as runtime:
        runtimes.append(runtime)
        await runtime.run("a", "Go", thread="t")
        return await recorded(runtime), [agent]


async def summarised_meanwhile() -> Made:
    """A summary of the history falls due in the first step, and is used in a later one."""
    summarised = asyncio.Event()

    @tool(effect="read")
    async def read(page: int) -> str:
        """Read a page."""
        if page > 1:
            await summarised.wait()
            await asyncio.sleep(0)  # the summary is taken from the answer
        return f"page {page}"

    def model(request: InferenceRequest) -> StreamResult:
        if "What was said since" in request.messages[-1].text():
            summarised.set()
            return text_response("They talked.")
        if not any("read" in message.text() for message in request.messages):
            return text_response("Noted. " + "word " * 200)
        pages = sum(message.role is Role.TOOL for message in request.messages)
        if pages == 4:
            return text_response("All read.")
        return tool_call_response("", "read", f"c{pages}", {"page": pages + 1})

    policy = ContextWindowPolicy.of(
        3_000, max_output_tokens=200, compact_at=0.5, min_recent_messages=2
    )
    agent = Agent("reader", model=FunctionModel(model), tools=[read], context_policy=policy)
    async with Runtime([agent]) as runtime:
        for number in range(3):
            await runtime.run("reader", f"{number} " + "blah " * 300, thread="t")
        await runtime.run("reader", "now read " + "blah " * 200, thread="t")
        folded = [
            message
            for message in await runtime.messages("t")
            if message.metadata is not None and message.metadata.compaction is not None
        ]
        assert len(folded) == 1
        return await recorded(runtime), [agent]


KINDS: tuple[Kind, ...] = (
    plain_answer,
    calls_of_every_outcome,
    the_same_call_twice,
    approvals_given_refused_and_changed,
    a_value_from_the_front_end,
    a_tool_of_the_client,
    blocked_by_a_gate,
    ended_by_a_plugin,
    an_answer_that_stays_empty,
    stopped_after_so_many_rounds,
    stopped_at_a_tool,
    a_model_that_fails,
    an_answer_in_two_pieces,
    a_call_cut_off_in_the_middle,
    answers_that_are_garbled,
    reasoning_that_is_signed,
    a_thread_with_a_history,
    a_word_in_between,
    a_message_instead_of_an_answer,
    answered_in_another_runtime,
    handed_over,
    a_task_for_a_delegate,
    a_task_in_the_background,
    cancelled_while_a_tool_ran,
    summarised_meanwhile,
)
