"""No compaction, truncation or recovery ever separates a call from its result (02/X2, X5).

`AWAKEN_SEQUENCES=10000 pytest tests/engine/test_window_laws.py` tries that many conversations.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken import Agent, Message, Runtime, ToolCall, ToolCallResume, tool
from awaken.core.inference import CompactionMode, ContextWindowPolicy, StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.transcript import effective_view
from awaken.core.window import DEFAULT_COUNTER, Window
from awaken.engine.transcript import LiveTranscript
from awaken.errors import StorageError
from awaken.ext.compaction.plan import plan, summary_message
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_calls_response

SEQUENCES = int(os.environ.get("AWAKEN_SEQUENCES", "60"))


def assert_pairs(messages: Sequence[Message], open_calls: Sequence[str] = ()) -> None:
    """Each call is followed at once by its result, and no result stands without its call."""
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        assert message.role is not Role.TOOL, "a result stands without its call"
        calls = [call.id for call in message.tool_calls or ()]
        while calls and rest and rest[0].role is Role.TOOL:
            calls.remove(rest.pop(0).tool_call_id or "")
        assert set(calls) <= set(open_calls), f"calls without a result: {calls}"


# -- the pieces -------------------------------------------------------------------------------


class Thread:
    """A raw log, and the live view of it that a run has; every so often another run takes over."""

    def __init__(self, system: bool) -> None:
        self.raw: list[Message] = [Message.system("You are here.")] if system else []
        self.open: list[str] = []
        self.ids = count()
        self.begin()

    def begin(self, read: int | None = None) -> None:
        """A new run, which reads the last messages of the log."""
        skipped = 0 if read is None else max(0, len(self.raw) - read)
        if self.open:
            skipped = 0
        log = self.raw[skipped:]
        leading = self.raw[:1] if skipped and self.raw[0].role is Role.SYSTEM else []
        view = effective_view(log, self.open, skipped=skipped)
        self.live = LiveTranscript([*leading, *view], (), log, len(self.raw))
        self.whole = skipped == 0

    def save(self) -> None:
        self.raw += self.live.take_pending()

    def do(self, what: str) -> None:
        if what.startswith("calls") and not self.open:
            calls = [
                ToolCall(id=f"c{n}", name="t", arguments={}) for n in range(int(what[-1]))
            ]  # the same ids in every turn, as some providers give them
            self.live.append(Message.assistant_with_tool_calls("", calls))
            self.open = [call.id for call in calls]
        elif what == "result" and self.open:
            id = self.open.pop(0)
            self.live.answer(id, Message.tool(id, "r " * 800))
        elif what == "late result" and self.open:
            id = self.open.pop()
            self.live.answer(id, Message.tool(id, "late " * 300))
        elif what == "user":
            self.live.append(Message.user(f"u{next(self.ids)} " + "word " * 400))
        elif what == "internal":
            self.live.append(Message.internal_user("i " * 300))
        elif what == "assistant" and not self.open:
            self.live.append(Message.assistant("said " * 400))
        self.save()

    def compact(self, suffix: int) -> None:
        found = plan(self.live.view(), suffix, DEFAULT_COUNTER)
        if found is None:
            return
        users = [m for m in self.live.view() if m.is_visible_user()]
        folded = self.live.fold(found.boundary_message_id, summary_message("sum", "s"))
        assert folded is not None
        self.save()
        assert self.raw[-1] is folded.summary, "it is in the log"
        assert folded.seq == len(self.raw)
        assert not users or users[-1] in self.live.view(), "the user's last message stays"
        if self.whole:
            assert list(self.live.view()) == effective_view(self.raw, self.open)


STEPS = st.one_of(
    st.tuples(
        st.sampled_from(
            ["user", "internal", "assistant", "calls1", "calls2", "calls3"]
            + ["result"] * 4
            + ["late result"]
        ),
        st.none(),
    ),
    st.tuples(st.just("compact"), st.integers(0, 5)),
    st.tuples(st.just("restart"), st.one_of(st.none(), st.integers(1, 20))),
)


@given(st.booleans(), st.lists(STEPS, max_size=60), st.integers(100, 6000), st.integers(0, 6))
@settings(max_examples=SEQUENCES * 3, deadline=None)
def test_whatever_is_shown_of_a_log_calls_and_results_stay_together(
    system: bool, steps: list[tuple[str, int | None]], room: int, at_least: int
) -> None:
    """02/X2, X5: and what a run shows after a summary is what the next one reads."""
    thread = Thread(system)
    before = list(thread.raw)
    window = Window()
    for what, number in steps:
        if what == "restart":
            thread.begin(number)
            window = Window(cut=window.cut)
        elif what == "compact":
            thread.compact(number or 0)
            window.begin_anew()
        else:
            thread.do(what)
        assert thread.raw[: len(before)] == before, "the log only grows"
        before = list(thread.raw)
        assert_pairs(list(thread.live.view()), thread.open)
        window.take(thread.live.items)
        window.fit(room, at_least)
        shown = list(window.view())
        assert_pairs(shown)
        users = [m for m in thread.live.view() if m.is_visible_user()]
        assert not users or users[-1] in shown
        if system and shown:
            assert shown[0] is thread.raw[0]


# -- the whole --------------------------------------------------------------------------------

ANSWERS = {"yes": ToolCallResume.approve(), "no": ToolCallResume.deny()}
CALLS = st.lists(st.sampled_from(["look", "ask", "die"]), min_size=1, max_size=3)
ACTIONS = st.one_of(
    st.tuples(st.just("say"), st.lists(CALLS, max_size=4)),
    st.tuples(st.just("answer"), st.lists(st.sampled_from(["yes", "no"]), max_size=3)),
    st.tuples(st.just("restart"), st.none()),
)


class Talk:
    """One thread, a small window, summaries, and a process that dies now and then."""

    def __init__(self, mode: CompactionMode) -> None:
        self.store = MemoryStore()
        self.policy = ContextWindowPolicy(
            max_context_tokens=3000,
            max_output_tokens=500,
            min_recent_messages=2,
            enable_prompt_cache=True,
            autocompact_threshold=1500,
            compaction_mode=mode,
        )
        self.turns: list[list[str]] = []
        self.texts = (f"message {number} " + "word " * 300 for number in count())
        self.safe = False
        self.restart()

    def restart(self) -> None:
        @tool(effect="read")
        async def look() -> str:
            """Look around."""
            return "seen " * 300

        @tool(needs_approval=True)
        async def ask() -> str:
            """Only if somebody agrees."""
            return "agreed " * 100

        @tool
        async def die() -> str:
            """The last that is heard of its process."""
            if not self.safe:
                self.store.forsake()
            return "dead"

        agent = Agent(
            "talker",
            model=FunctionModel(self.answer),
            tools=[look, ask, die],
            max_rounds=0,
            context_policy=self.policy,
        )
        self.runtime = Runtime([agent], store=self.store)

    def answer(self, request: InferenceRequest) -> StreamResult:
        assert_pairs(request.messages)
        if not request.tools:
            return text_response("what was said")
        shown = [m.text() for m in request.messages if m.is_visible_user()]
        assert shown, "the user's last message is always there"
        if not self.turns:
            return text_response("done " * 50)
        wanted = self.turns.pop(0)
        return tool_calls_response("calling", *[(w, f"c{n}", {}) for n, w in enumerate(wanted)])

    async def act(self, action: str, argument: list[list[str]] | list[str] | None) -> None:
        try:
            if action == "say":
                self.turns = [list(turn) for turn in argument or ()]
                await self.runtime.run("talker", next(self.texts), thread="t")
            elif action == "answer":
                tickets = await self.runtime.list_tickets()
                chosen = zip(tickets, argument or (), strict=False)
                answers = {ticket.key: ANSWERS[str(choice)] for ticket, choice in chosen}
                if answers:
                    await self.runtime.run(thread="t", answers=answers)
        except StorageError:
            action = "restart"
        if action == "restart":
            self.store.forsake()
            self.restart()
            self.safe = True
            for run in await self.runtime.recover():
                await run


@pytest.mark.timeout(600 + SEQUENCES // 5)
@given(st.sampled_from(CompactionMode), st.lists(ACTIONS, min_size=1, max_size=12))
@settings(max_examples=SEQUENCES, deadline=None)
def test_no_request_of_a_long_conversation_tears_a_round(
    mode: CompactionMode, actions: list[tuple[str, list[list[str]] | list[str] | None]]
) -> None:
    """02/X1, X2, X5, 01/D-16: compacted, cut, suspended, killed and recovered at random."""

    async def play() -> None:
        talk = Talk(mode)
        kept: list[str | None] = []
        for action in [("say", [["look"]]), *actions, ("restart", None), ("say", [])]:
            talk.safe = action == ("say", [])
            await talk.act(*action)
            log = [message.id for message in await talk.store.load_messages("t")]
            assert log[: len(kept)] == kept, "the log keeps everything"
            kept = log
            assert_pairs(effective_view(await talk.store.load_messages("t")))

    logging.disable()  # what breaks here is meant to
    try:
        asyncio.run(play())
    finally:
        logging.disable(logging.NOTSET)
