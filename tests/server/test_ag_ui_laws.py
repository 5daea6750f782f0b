"""Whatever a run does, its AG-UI stream keeps the protocol's rules, and its client ends with the
messages that are true."""

from __future__ import annotations

from typing import Any

from ag_ui_client import Client
from ag_ui_events import ASKED, COMPLETE, RUN, encoder, finished, started, told
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.codec import dumps_text, loads
from awaken.core.event import (
    ReasoningDelta,
    RunEvent,
    StepEnd,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallStart,
    ToolCallStreamDelta,
)
from awaken.core.lifecycle import CANCELLED, NATURAL_END, SUSPENDED_END, Failed
from awaken.core.tool import ToolResult
from awaken.server.protocols.ag_ui.messages import reasoning_id

ARGUMENTS = {"city": "Oslo"}
WRITTEN = ('{"city": "Oslo"}', '{"city":"Oslo"}')
"""The arguments as a model may write them: our own spelling, and another."""


class Answer:
    """An answer that a run is writing: what is true of it."""

    def __init__(self, id: str) -> None:
        self.id, self.is_logged = id, False
        self.clear()

    def clear(self) -> None:
        self.text = self.reasoning = ""
        self.calls: dict[str, str] = {}
        self.waiting: list[str] = []


class Run:
    """A run that does what it is told next; `events` are what its follower gives."""

    def __init__(self, id: str, parent: str | None, events: list[RunEvent]) -> None:
        self.id, self.parent, self.events = id, parent, events
        self.answers: dict[str, Answer] = {}
        self.results: dict[str, str] = {}
        self.now: Answer | None = None
        self.is_over = False
        self._count = 0
        self.tell(started(id, parent))

    def tell(self, event: Any) -> None:
        self.events.append(told(event, self.id, self.parent))

    def _new(self, what: str) -> str:
        self._count += 1
        return f"{self.id}-{what}{self._count}"

    def next(self, word: str, how: int) -> None:
        """Do what the word says, if it can be done now."""
        if self.is_over:
            return
        if self.now is None:
            self._begin()
        elif self.now.is_logged:
            self._carry_out(self.now, word)
        else:
            self._write(self.now, word, how)

    def _begin(self) -> None:
        self.now = Answer(self._new("m"))
        self.answers[self.now.id] = self.now
        self.tell(StepStart(message_id=self.now.id, agent_id="a"))

    def _write(self, now: Answer, word: str, how: int) -> None:
        match word:
            case "text":
                now.text += "ab"
                self.tell(TextDelta(delta="ab"))
            case "reasoning":
                now.reasoning += "hm"
                self.tell(ReasoningDelta(delta="hm"))
            case "call":
                id = self._new("c")
                now.calls[id] = WRITTEN[how % 2][: how % 17]
                self.tell(ToolCallStart(id=id, name="weather"))
                self.tell(ToolCallDelta(id=id, args_delta=now.calls[id]))
            case "drop" if now.calls:
                id, _ = now.calls.popitem()
                self.tell(ToolCallCancel(id=id, name="weather", reason="it was not valid JSON"))
            case "reset":
                now.clear()
                self.tell(StreamReset(reason="the model starts over"))
            case "snapshot":
                now.text += "cd"
                self.tell(self._snapshot(now))
            case "told otherwise":
                now.text, now.calls = "ef", {}
                self.tell(StreamReset(reason="it was told otherwise before"))
                self.tell(self._snapshot(now))
            case "another piece" if not now.calls:
                now.is_logged = True
                self._begin()
            case "taken over":
                del self.answers[now.id]
                self.now = None
                self.tell(StreamReset(reason="another process", from_seq=3))
                self.tell(started(self.id, self.parent))
            case "complete":
                self._complete(now)

    def _snapshot(self, now: Answer) -> StepSnapshot:
        calls = tuple((id, "weather", written) for id, written in now.calls.items())
        return StepSnapshot(message_id=now.id, text=now.text, reasoning=now.reasoning, calls=calls)

    def _complete(self, now: Answer) -> None:
        for id in now.calls:
            now.calls[id] = dumps_text(ARGUMENTS)
            self.tell(ToolCallReady(id=id, name="weather", arguments=ARGUMENTS))
        now.waiting = list(now.calls)
        now.is_logged = True
        self.tell(COMPLETE)

    def _carry_out(self, now: Answer, word: str) -> None:
        if word == "taken over":
            self.tell(StreamReset(reason="another process", from_seq=5))
            self.tell(started(self.id, self.parent))
        elif word == "text" and now.waiting:
            self.tell(ToolCallStreamDelta(id=now.waiting[0], name="weather", delta="…"))
        elif now.waiting:
            call = now.waiting.pop(0)
            id = self.results[call] = self._new("r")
            result = ToolResult.success_with_message("weather", "sunny", "sunny")
            self.tell(ToolCallDone(id=call, message_id=id, result=result, outcome=result.outcome))
        else:
            self.now = None
            self.tell(StepEnd())

    def end(self, how: int) -> None:
        if self.is_over:
            return
        if self.now is not None and not self.now.is_logged:
            for id in self.now.calls:
                self.tell(ToolCallCancel(id=id, name="weather", reason="the run ends"))
            self.now.calls = {}
        if self.now is not None:
            self.tell(StepEnd())
        self.now, self.is_over = None, True
        ends = (NATURAL_END, CANCELLED, Failed(value="it broke"), SUSPENDED_END)
        self.tell(finished(ends[how % 4], run_id=self.id))


WORDS = (
    *("text", "reasoning", "call", "drop", "reset", "snapshot", "told otherwise"),
    *("another piece", "taken over", "complete", "complete", "delegate", "end"),
)
Deeds = st.lists(
    st.tuples(st.sampled_from(WORDS), st.integers(0, 3), st.integers(0, 40)), max_size=60
)


def play(deeds: list[tuple[str, int, int]], how: int) -> tuple[list[RunEvent], list[Run]]:
    events: list[RunEvent] = []
    runs = [Run(RUN, None, events)]
    for word, which, detail in deeds:
        run = runs[which % len(runs)]
        if word == "delegate" and len(runs) < 4:
            runs.append(Run(f"child{len(runs)}", run.id, events))
        elif word == "end" and run.id != RUN:
            run.end(detail)
        else:
            run.next(word, detail)
    runs[0].end(how)
    return events, runs


@settings(max_examples=300)
@given(Deeds, st.integers(0, 3), st.booleans())
def test_a_client_ends_with_what_is_true(
    deeds: list[tuple[str, int, int]], how: int, is_1_0: bool
) -> None:
    events, runs = play(deeds, how)
    encode, client = encoder(is_1_0=is_1_0), Client([ASKED])
    client.take(encode.start())
    for event in events:
        client.take(encode.encode(event))
    client.take(encode.finish())
    assert client.types[-1] == ("RUN_ERROR" if how % 4 == 2 else "RUN_FINISHED")
    assert client.message("u1") == ASKED
    expected: set[str] = {"u1"}
    for run in runs:
        tag = None if run.id == RUN else run.id
        for answer in run.answers.values():
            expected |= _check(client, answer, tag)
        for call, id in run.results.items():
            held = client.message(id)
            assert (held["content"], held["toolCallId"]) == ("sunny", call)
            expected.add(id)
    held = {m["id"] for m in client.messages if m["role"] != "reasoning" or m.get("content")}
    assert held == expected


def _check(client: Client, answer: Answer, tag: str | None) -> set[str]:
    """Check what a client holds of an answer. Returns the ids of the messages it must have."""
    found: set[str] = set()
    if answer.text or answer.calls:
        said = client.message(answer.id)
        assert (said.get("content") or "") == answer.text
        assert said.get("subagentRunId") == tag
        calls = {c["id"]: c["function"]["arguments"] for c in said.get("toolCalls", ())}
        if answer.is_logged:
            assert {id: loads(a) for id, a in calls.items()} == dict.fromkeys(
                answer.calls, ARGUMENTS
            )
        else:
            assert calls == answer.calls
        found.add(answer.id)
    if answer.reasoning:
        thought = client.message(reasoning_id(answer.id))
        assert thought["content"] == answer.reasoning
        found.add(thought["id"])
    return found
