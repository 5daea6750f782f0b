"""A demo model that needs no key: deterministic and local.

It understands nothing. It compares the words of the last message with the agent's tools, calls
those that match, and reports their results. For structured output, it fills the schema with words
of the message.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import digest, dumps_text, loads
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.llm import InferenceRequest, LlmStreamEvent, ModelAbilities, Stop, Usage
from awaken.core.message import Message, Role, ToolCall
from awaken.core.output import OutputFormat
from awaken.core.tool import ToolDescriptor
from awaken.models.guess import guess_arguments, words_of

MAX_QUOTED = 200

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
        report = _report(since)
        return _shaped(request.output, f"{text} {report}") or report, []
    chosen = _matching(text, request.tools)
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
        return f"I will use {_listed([tool.id for tool, _ in chosen])}.", calls
    if shaped := _shaped(request.output, text):
        return shaped, []
    said = f"You said: “{_short(text)}”." if text.strip() else "Hello, I am the demo model."
    if request.tools:
        names = _listed([tool.id for tool in request.tools[:8]])
        return f"{said} Name a tool and I will call it: {names}.", []
    return said, []


def _shaped(output: OutputFormat | None, text: str) -> str:
    """An invented answer that fits the wanted schema; empty if none is wanted."""
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


def _matching(text: str, tools: Sequence[ToolDescriptor]) -> list[tuple[ToolDescriptor, str]]:
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
        if tool.id not in chosen and (shared := _shared(words, f"{tool.id} {tool.name}")):
            chosen[tool.id] = shared[-1]
    if not chosen:
        described = {tool.id: _shared(words, tool.description) for tool in tools}
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


def _shared(words: list[str], text: str) -> list[str]:
    other = set(words_of(text))
    return [word for word in words if word in other]


# -- telling results --------------------------------------------------------------------------


def _report(since: Sequence[Message]) -> str:
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


def _listed(names: Sequence[str]) -> str:
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
