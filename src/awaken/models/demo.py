"""A demo model that needs no key: deterministic and local.

It understands nothing. It compares the words of the last message with the agent's tools, calls
those that match, and reports their results. It invents the arguments of a call from the words of
the message, and for structured output it fills the schema with them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json, digest, dumps_text, loads
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import OutputFormat, StopReason, TokenUsage
from awaken.core.llm import InferenceRequest, LlmStreamEvent, ModelAbilities, Stop, Usage
from awaken.core.message import Message, Role, ToolCall
from awaken.core.tool import ToolDescriptor

MAX_QUOTED = 200


def words_of(text: str) -> list[str]:
    """The words of a sentence, or of a name in any case style, in lower case, without plural s."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower()
    return [word.removesuffix("s") or word for word in re.findall(r"[^\W_]+", spaced)]


_DENIED = re.compile(
    r"^.{0,60}\b(denied|declined|rejected|refused|not (allowed|approved)|approved false)\b",
    re.IGNORECASE,
)
_COMMON = frozenset(
    words_of(
        "a an and are as at be by can do for from get give given has how i if in into is it its "
        "let list make me my new of on or please return run say set show some tell that the this "
        "to tool us use user using want what when which will with you your"
    )
)


class DemoModel:
    """Calls the tools that a message mentions, then reports their results.

    Args:
        delay: seconds before each piece of the answer.
    """

    name = "demo"

    def __init__(self, *, delay: float = 0.0, clock: Clock = SYSTEM_CLOCK) -> None:
        self._delay = delay
        self._clock = clock

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return ModelAbilities(native_output=True)

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        text, calls = _answer(request)
        for event in _events(request, text, calls):
            if self._delay:
                await self._clock.sleep(self._delay)
            yield event


def _answer(request: InferenceRequest) -> tuple[str, list[ToolCall]]:
    """The text and the calls of the answer: a pure function of the request."""
    user, since = _last_turn(request.messages)
    results = [message for message in since if message.role is Role.TOOL]
    # Half a surrogate pair is a legal `str` and illegal JSON.
    text = user.text().encode(errors="replace").decode() if user is not None else ""
    # After the calls for this message, only report: the same tools would match again, for ever.
    if results:
        report = _summarize_results(since)
        return _invent_output(request.output, f"{text} {report}") or report, []
    chosen = _match_tools(text, request.tools)
    if chosen:
        seed = [user.id if user is not None else None, text, len(request.messages)]
        calls = [
            ToolCall(
                id=f"call_{digest([*seed, index, tool.id])[:16]}",
                name=tool.id,
                arguments=guess_arguments(tool.parameters, text, said),
            )
            for index, (tool, said) in enumerate(chosen)
        ]
        return f"I will use {_join_names([tool.id for tool, _ in chosen])}.", calls
    if shaped := _invent_output(request.output, text):
        return shaped, []
    said = f"You said: “{_short(text)}”." if text.strip() else "Hello, I am the demo model."
    if request.tools:
        names = _join_names([tool.id for tool in request.tools[:8]])
        return f"{said} Name a tool and I will call it: {names}.", []
    return said, []


def _invent_output(output: OutputFormat | None, text: str) -> str:
    """An invented answer that fits the requested schema; empty if the request has none."""
    return dumps_text(guess_arguments(output.schema, text)) if output is not None else ""


def _last_turn(messages: Sequence[Message]) -> tuple[Message | None, list[Message]]:
    """The last message a user wrote, and everything after it."""
    since: list[Message] = []
    for message in reversed(messages):
        if message.is_visible_user():
            return message, since[::-1]
        since.append(message)
    return None, since[::-1]


# -- choosing tools ---------------------------------------------------------------------------


def _match_tools(text: str, tools: Sequence[ToolDescriptor]) -> list[tuple[ToolDescriptor, str]]:
    """The tools that match a message, each with the matching words.

    Tools that match by name exclude tools that match only by description.
    """
    chosen: dict[str, str] = {}
    left = text
    for tool in tools:
        if said := _name_in(text, tool):
            chosen[tool.id] = said
            left = left.replace(said, " ")
    words = [word for word in words_of(left) if word not in _COMMON]
    for tool in tools:
        if tool.id not in chosen and (shared := _common_words(words, f"{tool.id} {tool.name}")):
            chosen[tool.id] = shared[-1]
    if not chosen:
        described = {tool.id: _common_words(words, tool.description) for tool in tools}
        chosen = {id: shared[-1] for id, shared in described.items() if len(set(shared)) > 1}
    return [(tool, chosen[tool.id]) for tool in tools if tool.id in chosen]


def _name_in(text: str, tool: ToolDescriptor) -> str:
    for name in (tool.id, tool.name):
        parts = re.findall(r"[^\W_]+", name)
        pattern = r"[\W_]?".join(parts)  # `get_weather` may be written "get weather"
        found = re.search(rf"\b{pattern}\b", text, re.IGNORECASE) if parts else None
        if found:
            return found[0]
    return ""


def _common_words(words: list[str], text: str) -> list[str]:
    other = set(words_of(text))
    return [word for word in words if word in other]


# -- inventing arguments ----------------------------------------------------------------------


MAX_DEPTH = 4
MAX_SEARCHED = 2000

_SHAPES = {
    "url": re.compile(r"https?://[^\s\"'<>]+"),
    "uri": re.compile(r"https?://[^\s\"'<>]+"),
    "email": re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w"),
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "path": re.compile(r"[\w.~-]*/[\w./~-]+|[\w-]+\.\w{1,5}\b"),
}

_FREE_TEXT = frozenset(
    words_of("body command content expression input message note prompt query question task text")
)
_LEAD = frozenset(
    words_of("a about and at for from in me of on please say that the then to use using with")
)
_NO = frozenset(words_of("disable false never no not off without"))


def guess_arguments(schema: Json, text: str, said: str = "") -> dict[str, Any]:
    """An object for `schema`: all required properties, and the others if `text` mentions them.

    Any schema will do, even a broken one.

    Args:
        said: the part of `text` that names the tool; the arguments are expected after it.
    """
    return _Guess(schema, text, said).object(schema)


class _Guess:
    """The unused parts of a sentence; each number, quote and name is used once."""

    def __init__(self, root: Json, text: str, said: str) -> None:
        self.rest = _rest_of_sentence(text, said)
        # Some patterns take quadratic time on one endless word.
        text = text[:MAX_SEARCHED]
        self.root, self.text = root, text
        self.words = set(words_of(text))
        self.quotes: list[str] = [a or b for a, b in re.findall(r'"([^"]+)"|“([^”]+)”', text)]
        self.quotes += re.findall(r"(?<!\w)'([^']+)'(?!\w)", text)
        # Fifteen digits: as many as a float holds exactly.
        self.numbers: list[str] = re.findall(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?", text)
        # The first word of a sentence is always capitalised, so names further on come first.
        name = r"(?!I\b)[A-Z][\w-]*(?:\s+[A-Z][\w-]*)*"
        inside: list[str] = re.findall(rf"(?<=[^.?!\s]\s){name}", text)
        self.names: list[str] = inside or re.findall(rf"\b{name}", text)

    def object(self, schema: Json, depth: int = 0) -> dict[str, Any]:
        shape = self.plain(schema)
        properties = _dict(shape.get("properties"))
        required = _list(shape.get("required"))
        # The most important names come last in a sentence: "Ask Bob to fly from Paris to Rome".
        strings = sum(self.plain(each)["type"] == "string" for each in properties.values())
        self.names = self.names[-strings:]
        made: dict[str, Any] = {}
        # Required properties come first, so that optional ones only get what is left.
        for name in sorted(properties, key=lambda name: name not in required):
            if name in required or self.speaks_of(name, properties[name]):
                made[name] = self.value(name, properties[name], depth + 1)
        return made

    def speaks_of(self, name: str, schema: Json) -> bool:
        """Whether the sentence has something for an optional property."""
        shape = self.plain(schema)
        if options := _list(shape.get("enum")):
            return self.choice(options) is not None
        if self.words & set(words_of(name)):
            return True
        kind = shape.get("type")
        return bool(
            (kind in ("integer", "number") and self.numbers)
            or (kind == "string" and (self.quotes or name in _FREE_TEXT))
        )

    def value(self, name: str, schema: Json, depth: int) -> Any:
        shape = self.plain(schema)
        if "const" in shape:
            return shape["const"]
        options = _list(shape.get("enum"))
        if options:
            named = self.choice(options)
            return named if named is not None else options[0]
        match shape.get("type"):
            case "integer" | "number" as kind:
                return self.number(shape, kind == "integer")
            case "boolean":
                return not self.words & _NO
            case "null":
                return None
            case "array":
                return self.array(name, shape.get("items"), depth)
            case "object":
                return self.object(shape, depth) if depth < MAX_DEPTH else {}
            case _:
                return self.string(name, shape)

    def array(self, name: str, items: Json, depth: int) -> list[Any]:
        shape = self.plain(items)
        if shape["type"] in ("integer", "number"):
            whole = shape["type"] == "integer"
            return [self.number(shape, whole) for _ in range(max(1, len(self.numbers)))]
        found = self.quotes or self.names
        if shape["type"] == "string" and "enum" not in shape and found:
            values = found.copy()
            found.clear()
            return values
        return [self.value(name, items, depth + 1)] if depth < MAX_DEPTH else []

    def number(self, shape: dict[str, Any], whole: bool) -> float:
        low, high = shape.get("minimum"), shape.get("maximum")
        number = float(self.numbers.pop(0)) if self.numbers else 1.0
        if isinstance(low, int | float):
            number = max(number, low)
        if isinstance(high, int | float):
            number = min(number, high)
        return int(number) if whole or number == int(number) else number

    def string(self, name: str, shape: dict[str, Any]) -> str:
        told = re.search(rf"\b{re.escape(name)}\s*(?:=|:|\bis\b)\s*([^\s,;\"“]+)", self.text, re.I)
        if told:
            return told[1].rstrip(".?!")
        hints = [*words_of(name), shape.get("format")]
        for key, pattern in _SHAPES.items():
            found = pattern.search(self.text) if key in hints else None
            if found:
                return found[0]
        if self.quotes:
            return self.quotes.pop(0)
        if name in _FREE_TEXT and self.rest:
            return self.rest
        if self.names:
            return self.names.pop(0)
        return self.rest or self.text.strip() or name

    def choice(self, options: Iterable[Any]) -> Any:
        """The option the sentence names, or `None`."""
        for option in options:
            parts = set(words_of(str(option)))
            if parts and parts <= self.words:
                return option
        return None

    def plain(self, schema: Json) -> dict[str, Any]:
        """The schema with references resolved and the first alternative that is not null chosen."""
        shape = _dict(schema)
        for _ in range(MAX_DEPTH):
            reference = shape.get("$ref")
            branches = next((shape[k] for k in ("anyOf", "oneOf", "allOf") if shape.get(k)), None)
            if isinstance(reference, str):
                shape = self.follow(reference)
            elif isinstance(branches, list):
                shape = next((b for b in map(_dict, branches) if b.get("type") != "null"), {})
            else:
                break
        kind = shape.get("type")
        if isinstance(kind, list):
            kind = next((k for k in kind if k != "null"), "null")
        return {**shape, "type": kind if isinstance(kind, str) else None}

    def follow(self, reference: str) -> dict[str, Any]:
        found = self.root
        for part in reference.removeprefix("#/").split("/"):
            found = _dict(found).get(part)
        return _dict(found)


def _rest_of_sentence(text: str, said: str) -> str:
    """The rest of a sentence after the name of the tool."""
    found = re.search(rf"{re.escape(said)}\w*", text, re.IGNORECASE) if said else None
    words = text[found.end() if found else 0 :].split()
    while words and words[0].lower().strip(":,") in {*_LEAD, ""}:
        del words[0]
    return " ".join(words).strip(" \"'“”.?!")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# -- reporting results ------------------------------------------------------------------------


def _summarize_results(since: Sequence[Message]) -> str:
    """A sentence for every result, and for every other message that came meanwhile."""
    names = {call.id: call.name for message in since for call in message.tool_calls or ()}
    sentences: list[str] = []
    for message in since:
        if message.role is Role.TOOL:
            name = names.get(message.tool_call_id or "", "the tool")
            said = _readable(message.text()) or "nothing"
            verb = "was denied" if _DENIED.search(said) else "answered"
            sentences.append(f"{name} {verb}: {said}.")
        elif message.role is Role.USER:
            sentences.append(f"I was also told: {_short(message.text())}.")
    return " ".join(sentences)


def _readable(text: str) -> str:
    """A result in plain words: `{"celsius":21}` becomes `celsius 21`."""
    try:
        value = loads(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _short(text)
    if isinstance(value, dict):
        return _short(", ".join(f"{key} {_plain(item)}" for key, item in value.items()))
    if isinstance(value, list):
        return _short(", ".join(_plain(item) for item in value))
    return _short(_plain(value))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else dumps_text(value)


def _short(text: str) -> str:
    text = " ".join(text.encode(errors="replace").decode().split())
    short = text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 1] + "…"
    return short.rstrip(".")


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


# -- streaming --------------------------------------------------------------------------------


def _events(
    request: InferenceRequest, text: str, calls: Sequence[ToolCall]
) -> Iterator[LlmStreamEvent]:
    for word in re.findall(r"\S+\s*", text):
        yield TextDelta(delta=word)
    written = text
    for call in calls:
        arguments = dumps_text(call.arguments)
        written += call.name + arguments
        yield ToolCallStart(id=call.id, name=call.name)
        yield ToolCallDelta(id=call.id, args_delta=arguments)
    asked = sum(_tokens(message.text()) for message in request.messages)
    answered = _tokens(written)
    yield Usage(
        usage=TokenUsage(
            prompt_tokens=asked, completion_tokens=answered, total_tokens=asked + answered
        )
    )
    yield Stop(reason=StopReason.TOOL_USE if calls else StopReason.END_TURN)


def _tokens(text: str) -> int:
    """An estimate: four bytes a token."""
    return (len(text.encode(errors="replace")) + 3) // 4
