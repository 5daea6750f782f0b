"""A model that speaks every dialect, over a wire that breaks.

The bytes are aimock's: what is missing of the conversation, asked for in the dialect of the
request, and played event by event as far as the wire holds.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

from cut_dialects import BROKEN, KEY, Dialect, Line
from mock_server import Answer, MockServer, Received, WireServer

from awaken.core.answer_stream import GO_ON

QUESTION = "Two nights in Paris, three in Rome."
FIRST = "I shall book both of them for you now. "
FINAL = "Paris and Rome are booked: five nights."
CALLS = {"call_a": {"city": "Paris", "nights": 2}, "call_b": {"city": "Rome", "nights": 3}}
CHUNK = 14

_WHOLE = (re.compile(rb"nights\W+2}"), re.compile(rb"nights\W+3}"))

BOTH = "call_a call_b"
END = "end"
"""What an answer is about: the calls that are missing, or the end of the conversation."""


def fixtures() -> Iterator[dict[str, Any]]:
    """Whatever can be missing: of each answer all that follows a beginning of its text."""
    for part, text in ((BOTH, FIRST), ("call_a", ""), ("call_b", ""), (END, FINAL)):
        for said in range(len(text) + 1):
            answer = {"reasoning": "Two cities, two bookings.", **_answer(part, text[said:])}
            match = {"userMessage": _name(part, said)}
            # Gemini ends all that ends well with STOP; aimock thinks otherwise.
            stops = {**answer, "finishReason": "stop"}
            yield {"match": {**match, "model": "gemini-3-pro"}, "response": stops}
            yield {"match": match, "response": answer}


def _answer(part: str, text: str) -> dict[str, Any]:
    if part == END:
        return {"content": text}
    said = [{"type": "text", "text": text}] if text else []
    called = ({"id": id, "name": "book", "arguments": CALLS[id]} for id in part.split())
    return {"blocks": [*said, *({"type": "toolCall", **call} for call in called)]}


def _name(part: str, said: int) -> str:
    return f"<{part} after {said}>"


class Recordings:
    """aimock's answers, each asked for once in each dialect."""

    def __init__(self, mock: MockServer) -> None:
        self._mock = mock
        self._known: dict[tuple[str, str], Sequence[bytes]] = {}

    async def events(self, dialect: Dialect, part: str, said: int = 0) -> Sequence[bytes]:
        """The events of an answer of whose text so many characters were said before."""
        return await self.answer(dialect, _name(part, said))

    async def answer(self, dialect: Dialect, question: str) -> Sequence[bytes]:
        """The events of the answer to a question."""
        key = (dialect.path, question)
        if key not in self._known:
            self._known[key] = await asyncio.to_thread(self._ask, dialect, question)
        return self._known[key]

    def _ask(self, dialect: Dialect, question: str) -> Sequence[bytes]:
        request = Request(
            self._mock.url + dialect.path,
            data=json.dumps(dialect.question(question)).encode(),
            headers={"content-type": "application/json", "authorization": f"Bearer {KEY}"},
        )
        with urlopen(request, timeout=10) as answer:
            return dialect.events(answer.read())


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Where a wire breaks: after so many events, and half of the next if `torn`.

    Args:
        at: after so many bytes instead.
        unframed: the body has no declared end, so that a cut looks like one.
        reset: the connection is not closed but reset.
        held: it does not break; nothing more comes.
    """

    after: int = 0
    at: int | None = None
    torn: bool = False
    unframed: bool = False
    reset: bool = False
    held: bool = False

    def answer(self, events: Sequence[bytes]) -> Answer:
        pieces = list(events[: self.after])
        if self.at is not None:
            pieces = [b"".join(events)[: self.at]]
        if self.torn and self.after < len(events):
            pieces.append(events[self.after][: len(events[self.after]) // 2])
        return Answer(
            pieces=pieces,
            cut=not self.held,
            unframed=self.unframed,
            reset=self.reset,
            held=self.held,
        )


class Stage(WireServer):
    """Answers every request with what is missing of the conversation.

    `cuts` says, of the answers to each part, where the first, the second … is cut. With `deserts`,
    a provider whose wire broke refuses the key from then on.
    """

    def __init__(self, recordings: Recordings, *, deserts: bool = False) -> None:
        super().__init__()
        self.asked: list[tuple[str, str, int]] = []
        """By each request: in which dialect, for which part, after how many characters of it."""
        self.problems: list[str] = []
        self._cuts: dict[str, list[Cut]] = {}
        self._recordings = recordings
        self._deserts = deserts
        self._gone: set[str] = set()

    def begin(self, cuts: Mapping[str, Sequence[Cut]] | None = None) -> None:
        """From now on it is about another conversation."""
        self._cuts = {part: list(them) for part, them in (cuts or {}).items()}
        self.asked.clear()
        self.holding.clear()
        self._gone.clear()

    async def answer(self, request: Received) -> Answer:
        name, dialect = next(
            (name, each) for name, each in BROKEN.items() if each.path == request.path
        )
        if name in self._gone:
            return _refusal(401, "the key was taken back")
        lines = list(dialect.lines(request.body))
        part, said = missing(lines)
        self.asked.append((name, part, len(said)))
        text = FINAL if part == END else FIRST if part == BOTH else ""
        problem = misplaced(lines) or (None if text.startswith(said) else f"said {said!r}")
        if problem is not None:
            self.problems.append(f"{problem} in {lines}")
            return _refusal(400, problem)
        events = await self._recordings.events(dialect, part, len(said))
        cuts = self._cuts.get(part)
        if not cuts:
            return Answer(pieces=events)
        if self._deserts:
            self._gone.add(name)
        return cuts.pop(0).answer(events)


# -- what is to be expected ----------------------------------------------------------------------


def has_spoken(came: Sequence[bytes]) -> bool:
    """Whether any text has come."""
    return any(text[:CHUNK].encode() in event for event in came for text in (FIRST, FINAL))


def parts_asked(came: Sequence[bytes]) -> list[str]:
    """What a model is asked for when so much of its first answer has come."""
    whole = [any(call.search(event) for event in came) for call in _WHOLE]
    rest = {(False, False): [BOTH], (True, False): ["call_b"], (True, True): []}
    return [BOTH, *rest[whole[0], whole[1]], END]


# -- conversations --------------------------------------------------------------------------------


def missing(lines: Sequence[Line]) -> tuple[str, str]:
    """Which part of the conversation comes next, and what was said of it."""
    done = {what for who, what in lines if who == "result"}
    part = " ".join(id for id in CALLS if id not in done) or END
    said: list[str] = []
    if lines[-1] == ("user", GO_ON):
        for who, what in reversed(lines[:-1]):
            if who != "model":
                break
            said.insert(0, what)
    return part, "".join(said)


def misplaced(lines: Sequence[Line]) -> str | None:
    """What is wrong with the order of a conversation: calls have their results right after them."""
    calls: set[str] = set()
    waiting: set[str] = set()
    for who, what in lines:
        if who == "call":
            if what in calls:
                return f"call {what} comes twice"
            calls.add(what)
            waiting.add(what)
        elif who == "result":
            if what not in waiting:
                return f"the result of {what} has no call"
            waiting.remove(what)
        elif waiting:
            return f"{who} speaks before the results of {waiting}"
    return f"no results of {waiting}" if waiting else None


def _refusal(status: int, message: str) -> Answer:
    error = {"message": message, "type": "refused", "code": status}
    return Answer(status=status, pieces=[json.dumps({"error": error}).encode()])
