"""Whatever happens to a conversation, no model ever sees a call without its result.

`AWAKEN_SEQUENCES=10000 pytest tests/engine/test_conversation_laws.py` tries that many sequences;
with `--hypothesis-seed` the same ones again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from awaken import (
    Agent,
    Message,
    Runtime,
    ToolCall,
    ToolCallContext,
    ToolCallResume,
    ToolDescriptor,
    ToolError,
    tool,
)
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role, Text
from awaken.core.spec import ToolExecutorKind
from awaken.core.store.commits import CallPhase, Committed, ThreadCommit
from awaken.core.store.threads import RunQuery, TicketQuery
from awaken.core.suspension import ResumeAction, TicketStatus, ToolCallResumeMode
from awaken.core.tool_context import Tool
from awaken.core.transcript import effective_view
from awaken.errors import ArgumentsRefused, CommitUnknown, StorageError, StoreError
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response

SEQUENCES = int(os.environ.get("AWAKEN_SEQUENCES", "150"))
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


# -- what may go wrong ------------------------------------------------------------------------


class Mishap(NamedTuple):
    """What becomes of the n-th commit from now: the process dies before it, or its answer is lost
    though it landed, or because it did not."""

    kind: str
    at: int


class Frail(MemoryStore):
    """A store to which mishaps happen."""

    def __init__(self) -> None:
        super().__init__()
        self.mishap: Mishap | None = None
        self._commits = 0

    def expect(self, mishap: Mishap | None) -> None:
        self.mishap, self._commits = mishap, 0

    async def commit(self, commit: ThreadCommit) -> Committed:
        if self.mishap is None:
            return await super().commit(commit)
        kind, at = self.mishap
        self._commits += 1
        if kind == "dies" and self._commits >= at:
            raise StoreError("killed")
        if self._commits == at:
            if kind == "landed":
                await super().commit(commit)
            raise CommitUnknown("line cut")
        return await super().commit(commit)


# -- the conversation -------------------------------------------------------------------------


class Conversation:
    """One thread, its store, and a model that calls what the test wants next."""

    def __init__(self, executor: ToolExecutorKind) -> None:
        self.turns: list[list[str]] = []
        self.meanwhile: list[str] = []
        self.sent: list[str] = []
        self.ran: Counter[str] = Counter()
        self.stumbled: set[str] = set()
        self.safe = False
        self.texts = (f"message {number}" for number in count())
        self.store = Frail()
        self.executor = executor
        self.restart()

    def restart(self) -> None:
        """A new runtime on the same store, as after the end of a process."""
        agent = Agent(
            "talker",
            model=FunctionModel(self.answer),
            tools=self.tools(),
            max_rounds=0,
            tool_executor=self.executor,
        )
        self.runtime = Runtime([agent], store=self.store)
        self.elsewhere = Runtime([agent], store=self.store)

    def tools(self) -> list[Tool]:
        @tool
        async def ok(ctx: ToolCallContext) -> str:
            """Fine."""
            self.ran[ctx.idempotency_key] += 1
            return "fine"

        @tool(effect="read")
        async def look() -> str:
            """Look around."""
            return "seen"

        @tool
        async def fail(ctx: ToolCallContext) -> str:
            """Never fine."""
            self.ran[ctx.idempotency_key] += 1
            raise ToolError.execution_failed("broken")

        @tool(needs_approval=True)
        async def ask(ctx: ToolCallContext) -> str:
            """Only if somebody agrees."""
            self.ran[ctx.idempotency_key] += 1
            return "agreed"

        @tool(recover="ask")
        async def doubt() -> str:
            """Somebody has to say what became of it."""
            return "certain"

        @tool(verify=lambda ctx: [True, False, None, "found"][len(ctx.idempotency_key) % 4])
        async def check() -> str:
            """Can find out what became of it."""
            return "checked"

        @tool
        async def cancel(ctx: ToolCallContext) -> str:
            """Cancels its own run."""
            self.ran[ctx.idempotency_key] += 1
            await self.runtime.cancel(THREAD)
            await asyncio.Event().wait()
            return "unreachable"

        @tool
        async def note(ctx: ToolCallContext) -> str:
            """Writes to its own run."""
            self.ran[ctx.idempotency_key] += 1
            await self.steer(self.runtime)
            return "noted"

        @tool
        async def die(ctx: ToolCallContext) -> str:
            """The last that is heard of its process."""
            self.ran[ctx.idempotency_key] += 1
            self.crash()
            return "dead"

        @tool(effect="idempotent")
        async def stumble(ctx: ToolCallContext) -> str:
            """The same, but it gets up again."""
            if ctx.idempotency_key not in self.stumbled:
                self.stumbled.add(ctx.idempotency_key)
                self.crash()
            return "walked on"

        return [ok, look, fail, ask, doubt, check, cancel, note, die, stumble]

    async def answer(self, request: InferenceRequest) -> StreamResult:
        assert_every_call_is_answered(request.messages)
        await self.happen(self.meanwhile.pop(0) if self.meanwhile else "")
        if not self.turns:
            return text_response("done")
        kinds = self.turns.pop(0)
        calls = [
            # Ids repeat from turn to turn, as some providers' do.
            ToolCall(id=f"c{index}", name=kind, arguments={"x": 1} if kind == "bad" else {})
            for index, kind in enumerate("ok" if kind == "bad" else kind for kind in kinds)
        ]
        return StreamResult(content=(Text(text="calling"),), tool_calls=tuple(calls))

    # -- what is done to it -------------------------------------------------------------------

    async def happen(self, what: str) -> None:
        """Something while the model answers."""
        if what == "crash":
            self.crash()
        elif what.startswith("steer"):
            await self.steer(self.elsewhere if what.endswith("elsewhere") else self.runtime)
        elif what.startswith("cancel"):
            await (self.elsewhere if what.endswith("elsewhere") else self.runtime).cancel(THREAD)

    def crash(self) -> None:
        """Let the process die: the store takes nothing from it any more."""
        if not self.safe:
            self.store.forsake()

    async def steer(self, runtime: Runtime) -> None:
        """Write to the run; what was taken must be read, once."""
        text = next(self.texts)
        if await runtime.send(THREAD, text):
            self.sent.append(text)

    async def say(self, turns: list[list[str]]) -> None:
        self.turns = [list(turn) for turn in turns]
        await self.runtime.run("talker", next(self.texts), thread=THREAD, frontend_tools=[PICK])

    async def decide(self, choices: list[str], *, live: bool) -> None:
        """Answer the open tickets, some of them or all, in one go."""
        tickets = await self.runtime.list_tickets()
        answers = {
            ticket.key: _ANSWERS[choice]
            for ticket, choice in zip(tickets, choices, strict=False)
            if choice in _ANSWERS
        }
        if not answers:
            return
        if live:
            try:
                await self.runtime.decide(THREAD, answers)
            except ArgumentsRefused:
                assert await self.runtime.list_tickets() == tickets, (
                    "a refused edit changes nothing"
                )
            await self.quiet()
        else:
            await self.runtime.run(thread=THREAD, answers=answers, frontend_tools=[PICK])

    async def recover(self) -> None:
        for run in await self.runtime.recover():
            await run

    async def quiet(self) -> None:
        """Wait until nothing is under way."""
        await asyncio.sleep(0)
        for run in self.runtime.engine.active.all():
            await run.wait_ended(None)

    async def act(self, action: str, argument: Any, mishap: Mishap | None, during: Any) -> None:
        """Do one thing, with what happens meanwhile; a process that dies is followed by another."""
        self.meanwhile = list(during)
        self.store.expect(mishap)
        try:
            if action == "say":
                await self.say(argument)
            elif action in ("decide", "answer"):
                await self.decide(argument, live=action == "decide")
            elif action == "recover":
                await self.recover()
            elif action == "cancel":
                await self.runtime.cancel(THREAD)
        except StorageError:
            action = "crash"
        await self.quiet()
        self.store.expect(None)
        self.meanwhile = []
        if action in ("crash", "restart"):
            self.store.forsake()
            self.restart()

    # -- what must hold -----------------------------------------------------------------------

    async def check(self) -> None:
        log = await self.store.load_messages(THREAD)
        assert_every_call_is_answered(effective_view(log))
        assert len({message.id for message in log}) == len(log)
        assert not [key for key, times in self.ran.items() if times > 1], "once is once"
        events = await self.store.load_events(THREAD)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        thread = await self.store.load_thread(THREAD)
        assert thread is None or thread.owner is None
        for run in await self.runtime.list_runs(RunQuery(thread_id=THREAD, limit=1000)):
            tickets = await self.runtime.list_tickets(TicketQuery(run_id=run.run_id, limit=1000))
            waits = [t for t in tickets if t.status is TicketStatus.OPEN]
            if run.status is RunStatus.WAITING:
                assert run.waiting is not None
                assert {t.digest for t in waits} <= {t.digest for t in run.waiting.tickets}
            if run.status is RunStatus.DONE:
                assert not waits, "a run that is over asks nobody"
                phases = {entry.phase for entry in await self.store.load_calls(run.run_id)}
                assert CallPhase.INTENT not in phases, "what was begun has an end"

    async def check_the_end(self) -> None:
        """Carried on by a process to which nothing happens, all of it comes to an end."""
        self.turns, self.safe = [], True
        self.restart()
        await self.recover()
        await self.runtime.cancel(THREAD)
        await self.say([])
        await self.check()
        log = [message.text() for message in await self.store.load_messages(THREAD)]
        assert [log.count(text) for text in self.sent] == [1] * len(self.sent), "taken is read"
        assert list(await self.store.load_commands(THREAD)) == []
        runs = await self.runtime.list_runs(RunQuery(thread_id=THREAD, limit=1000))
        assert {run.status for run in runs} == {RunStatus.DONE}


_ANSWERS = {
    "yes": ToolCallResume.approve({"picked": 1}),
    "plain yes": ToolCallResume.approve(),
    "no": ToolCallResume.deny(),
    "edit": ToolCallResume.edit({}),
    "wrong edit": ToolCallResume.edit({"x": 1}),
    "again": ToolCallResume(action=ResumeAction.RESUME, mode=ToolCallResumeMode.REPLAY_TOOL_CALL),
}

CALLS = ["ok", "look", "fail", "ask", "doubt", "check", "pick", "cancel", "note", "unknown", "bad"]
KINDS = st.sampled_from([*CALLS, "die", "stumble"])
TURNS = st.lists(st.lists(KINDS, min_size=1, max_size=4), max_size=3)
CHOICES = st.lists(st.sampled_from([*_ANSWERS, "later"]), min_size=1, max_size=4)
MISHAPS = st.one_of(
    st.none(),
    st.none(),
    st.builds(Mishap, st.sampled_from(["dies", "dies", "lost", "landed"]), st.integers(1, 6)),
)
DURING = st.lists(
    st.sampled_from(["", "", "steer", "cancel", "steer elsewhere", "cancel elsewhere", "crash"]),
    max_size=3,
)
Action = tuple[str, Any, Mishap | None, list[str]]
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.tuples(st.just("say"), TURNS, MISHAPS, DURING),
    st.tuples(st.sampled_from(["decide", "answer"]), CHOICES, MISHAPS, DURING),
    st.tuples(st.sampled_from(["recover", "cancel"]), st.none(), MISHAPS, DURING),
    st.tuples(st.just("restart"), st.none(), st.none(), st.just([])),
)


@pytest.mark.timeout(600 + SEQUENCES // 10)
@given(st.sampled_from(ToolExecutorKind), st.lists(ACTIONS, min_size=1, max_size=6))
@settings(
    max_examples=SEQUENCES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_no_request_ever_holds_a_call_without_its_result(
    executor: ToolExecutorKind, actions: list[Action]
) -> None:
    """01/D-10, D-15, D-16: said, answered, steered, cancelled, killed and recovered at random."""

    async def play() -> None:
        conversation = Conversation(executor)
        await conversation.say([])
        for action in actions:
            await conversation.act(*action)
            await conversation.check()
        await conversation.check_the_end()

    logging.disable()  # what breaks here is meant to
    try:
        asyncio.run(play())
    finally:
        logging.disable(logging.NOTSET)
