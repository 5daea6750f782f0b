"""Whatever happens to a conversation, no model ever sees a call without its result."""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from awaken import Agent, Message, Runtime, ToolCall, ToolCallResume, ToolDescriptor, tool
from awaken.contract.llm import InferenceRequest
from awaken.domain.inference import StreamResult
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Role, Text
from awaken.domain.spec import ToolExecutorKind
from awaken.domain.transcript import effective_view
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response

THREAD = "thread"
PICK = ToolDescriptor(id="pick", name="pick", description="Let the user pick.")


def assert_every_call_is_answered(messages: Sequence[Message]) -> None:
    """Each assistant message's calls are followed at once by their results, in order."""
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        assert message.role is not Role.TOOL, "a result stands without its call"
        for call in message.tool_calls or ():
            assert rest, f"call {call.id} has no result"
            result = rest.pop(0)
            assert result.role is Role.TOOL
            assert result.tool_call_id == call.id


class Conversation:
    """One thread, its store, and a model that calls what the test wants next."""

    def __init__(self, executor: ToolExecutorKind) -> None:
        self.turns: list[list[str]] = []
        self.store = MemoryStore()
        self.executor = executor
        self.restart()

    def restart(self) -> None:
        """A new runtime on the same store, as after the end of a process."""

        @tool
        async def ok() -> str:
            """Fine."""
            return "fine"

        @tool
        def fail() -> str:
            """Never fine."""
            raise ValueError("broken")

        @tool(needs_approval=True)
        async def ask() -> str:
            """Only if somebody agrees."""
            return "agreed"

        @tool
        async def cancel() -> str:
            """Cancels its own run."""
            await self.runtime.cancel(THREAD)
            await asyncio.Event().wait()
            return "unreachable"

        @tool
        async def note() -> str:
            """Writes to its own run."""
            await self.runtime.send(THREAD, "a note")
            return "noted"

        agent = Agent(
            "talker",
            model=FunctionModel(self.answer),
            tools=[ok, fail, ask, cancel, note],
            max_rounds=0,
            tool_executor=self.executor,
        )
        self.runtime = Runtime([agent], store=self.store)

    def answer(self, request: InferenceRequest) -> StreamResult:
        assert_every_call_is_answered(request.messages)
        if not self.turns:
            return text_response("done")
        kinds = self.turns.pop(0)
        calls = [
            # Ids repeat from turn to turn, as some providers' do.
            ToolCall(id=f"c{index}", name=kind, arguments={"x": 1} if kind == "bad" else {})
            for index, kind in enumerate("ok" if kind == "bad" else kind for kind in kinds)
        ]
        return StreamResult(content=(Text(text="calling"),), tool_calls=tuple(calls))

    async def say(self, turns: list[list[str]]) -> None:
        self.turns = list(turns)
        await self.runtime.run("talker", "hello", thread=THREAD, frontend_tools=[PICK])

    async def decide(self, choices: list[bool | None]) -> None:
        """Answer the open tickets, some of them or all, in one go."""
        latest = await self.store.latest_run(THREAD)
        if latest is None or latest.waiting is None:
            return
        answers = {
            ticket.ticket_id: ToolCallResume.approve({"picked": 1})
            if yes
            else ToolCallResume.deny()
            for ticket, yes in zip(latest.waiting.tickets, choices, strict=False)
            if yes is not None
        }
        if answers:
            await self.runtime.run(thread=THREAD, answers=answers, frontend_tools=[PICK])

    async def check(self) -> None:
        log = await self.store.load_messages(THREAD)
        assert_every_call_is_answered(effective_view(log))
        latest = await self.store.latest_run(THREAD)
        assert latest is not None
        assert latest.status in (RunStatus.DONE, RunStatus.WAITING)
        if latest.status is RunStatus.WAITING:
            assert latest.waiting is not None
            assert latest.waiting.tickets
        events = await self.store.load_events(THREAD)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))


KINDS = st.sampled_from(["ok", "fail", "ask", "pick", "cancel", "note", "unknown", "bad"])
TURNS = st.lists(st.lists(KINDS, min_size=1, max_size=4), max_size=3)
CHOICES = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4)
ACTIONS = st.one_of(
    st.tuples(st.just("say"), TURNS),
    st.tuples(st.just("decide"), CHOICES),
    st.tuples(st.just("restart"), st.none()),
)


@given(st.sampled_from(ToolExecutorKind), st.lists(ACTIONS, min_size=1, max_size=6))
@settings(max_examples=120, deadline=None)
def test_no_request_ever_holds_a_call_without_its_result(
    executor: ToolExecutorKind, actions: list[tuple[str, Any]]
) -> None:
    async def play() -> None:
        conversation = Conversation(executor)
        await conversation.say([])
        for action, argument in actions:
            if action == "restart":
                conversation.restart()
            elif action == "say":
                await conversation.say(argument)
            else:
                await conversation.decide(argument)
            await conversation.check()

    asyncio.run(play())
