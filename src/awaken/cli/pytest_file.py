"""Writing a recorded run as a pytest file, with large texts in a JSON file beside it.

`write_test` writes the test, `Source` its values: as Python source that a formatter leaves
unchanged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from awaken.codec import Json
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.message import ContentBlock, Message, Text
from awaken.core.suspension import ResumeAction, ToolCallResume, ToolCallResumeMode
from awaken.runtime.replay import Approval, RecordedCall, Recording, Scene

LONGEST = 4_000
_REPLAY = "awaken.runtime.replay"


class ReplaySetup(NamedTuple):
    """Where the user's agents are, and which tools return recorded results; without `played`,
    all."""

    module: str
    name: str
    folder: str | None = None
    played: Collection[str] | None = None


class PytestFile(NamedTuple):
    """The test, and the large texts for the file beside it."""

    source: str
    texts: dict[str, str]


def write_test(
    recording: Recording, cast: ReplaySetup | None = None, *, has_neighbours: bool = True
) -> PytestFile:
    """The test of a recording; the output is deterministic.

    Args:
        cast: the user's own agents; without them, a stand-in.
        has_neighbours: whether large texts may go into a file beside the test.
    """
    writer = _TestWriter(recording, cast, Source(LONGEST if has_neighbours else None))
    return PytestFile(writer.whole(), writer.source.large)


def slug(text: str) -> str:
    """A text made into a part of a Python name."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower() or "agent"


def folder_from(test: Path, folder: Path) -> str:
    """The path of a folder relative to the folder of the test."""
    return Path(os.path.relpath(folder.resolve(), test.resolve().parent)).as_posix()


class _TestWriter:
    def __init__(self, recording: Recording, cast: ReplaySetup | None, source: Source) -> None:
        self._recording = recording
        self._cast = cast
        self.source = source

    def whole(self) -> str:
        source, recording = self.source, self._recording
        scene = recording.scene(own_code=self._cast is not None)
        data = [
            source.write(self._scene(scene), before="SCENE = "),
            source.write(self._answers(), before="ANSWERS = "),
            self._test(),
        ]
        texts = [block(name, text) for name, text in source.texts.items()]
        parts = [self._docstring(), self._imports(), *self._preamble(), *texts, *data[:-1]]
        return "\n\n".join(parts) + "\n\n\n" + data[-1] + "\n"

    # -- around the data ----------------------------------------------------------------------

    def _docstring(self) -> str:
        run, cast = self._recording, self._cast
        day = datetime.fromtimestamp(run.created_at, UTC).date().isoformat()
        lines = [
            f'"""Run {_harmless(run.run_id)} of {day}, replayed: no key, no network.',
            "",
            f"Written by `awaken export {_harmless(run.run_id)} --pytest`.",
        ]
        if cast is None:
            lines += [
                "Nothing is known of the agent here but its calls: each brings what it brought."
            ]
        elif cast.played is None:
            lines += ["The agent is the real one; its calls bring what they brought."]
        else:
            lines += ["The agent is the real one, and so are its tools."]
        if len(run.agents) > 1:
            lines += [f"It was handed over: {_harmless(', '.join(run.agents))}."]
        return "\n".join([*lines, '"""'])

    def _imports(self) -> str:
        source = self.source
        standard = ["asyncio"]
        if self._cast is not None:
            standard.append("importlib")
        if source.large:
            standard.append("json")
        if self._cast is not None and self._cast.folder is not None:
            standard.append("sys")
        lines = [f"import {name}" for name in standard]
        if source.large or "sys" in standard:
            lines.append("from pathlib import Path")
        for module in sorted(source.imports):
            listed = sorted(source.imports[module], key=lambda name: (not name[0].isupper(), name))
            line = f"from {module} import {', '.join(listed)}"
            if len(line) > WIDTH:
                inner = "".join(f"    {name},\n" for name in listed)
                line = f"from {module} import (\n{inner})"
            lines.append(line)
        split = next(at for at, line in enumerate(lines) if line.startswith("from awaken"))
        return "\n".join([*lines[:split], "", *lines[split:]])

    def _preamble(self) -> Iterator[str]:
        cast = self._cast
        if cast is not None:
            lines = []
            if cast.folder is not None:
                where = "" if cast.folder == "." else f" / {self.source.write(cast.folder)}"
                here = f"Path(__file__).parent{where}"
                lines.append(f"sys.path.insert(0, str({here}))")
            lines.append(f'AGENTS = importlib.import_module("{cast.module}").{cast.name}')
            yield "\n".join(lines)
        if self.source.large:
            yield 'TEXTS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))'

    def _test(self) -> str:
        source, run = self.source, self._recording
        source.begin("EXPECTED")  # the expected values must not change with the answers
        model = f"{source.use('awaken.testing', 'ScriptedModel')}(ANSWERS)"
        given = ["SCENE", "model"]
        if self._cast is not None:
            given.append("AGENTS")
            if self._cast.played is not None:
                given.append('tools="real"')
        replay = f"{source.use(_REPLAY, 'replay')}({', '.join(given)})"
        real = self._cast is not None and self._cast.played is not None
        calls: Sequence[object] = run.asked_calls if real else run.calls
        asserts = [
            source.write(
                list(calls), before=f"assert run.{'asked_calls' if real else 'calls'} == ", indent=4
            ),
            source.write(run.response, before="assert run.response == ", indent=4),
            source.write(run.termination, before="assert run.termination == ", indent=4),
            "    assert model.remaining == 0",
        ]
        lines = [
            f"def test_run_of_{slug(run.agent)}() -> None:",
            f"    model = {model}",
            "",
            f"    run = asyncio.run({replay})",
            "",
            *asserts,
        ]
        return "\n".join(lines)

    # -- the data -----------------------------------------------------------------------------

    def _scene(self, scene: Scene) -> SourceCall:
        use = self.source.use
        calls = scene.calls
        if self._cast is not None and self._cast.played is not None:
            calls = [made for made in calls if made.tool in self._cast.played]
        given: dict[str, object] = {
            "agent": scene.agent,
            "history": [self._message(message) for message in scene.history],
            "input": [self._message(message) for message in scene.input],
            "calls": [self._call(made) for made in calls],
            "approvals": [self._approval(approval) for approval in scene.approvals],
            "news": {
                step: [self._message(message) for message in said]
                for step, said in scene.news.items()
            },
            "end": scene.end,
            "steps": scene.steps if scene.end is not None else 0,
            "overrides": scene.overrides,
            "frontend_tools": list(scene.frontend_tools),
        }
        return SourceCall(use(_REPLAY, "Scene"), **{name: it for name, it in given.items() if it})

    def _message(self, message: Message) -> object:
        """A message as the shortest call that makes it, or else as it is."""
        text = _only_text(message.content)
        if text is None:
            return message
        made: dict[str, tuple[Message, tuple[object, ...]]] = {
            "user": (Message.user(text), (text,)),
            "internal_user": (Message.internal_user(text), (text,)),
            "assistant": (Message.assistant(text), (text,)),
        }
        if message.tool_calls:
            calls = list(message.tool_calls)
            with_calls = Message.assistant_with_tool_calls(text, calls)
            made["assistant_with_tool_calls"] = (with_calls, (text, calls))
        if message.tool_call_id is not None:
            result = Message.tool(message.tool_call_id, text)
            made["tool"] = (result, (message.tool_call_id, text))
        for verb, (candidate, given) in made.items():
            if msgspec.structs.replace(candidate, id=message.id) == message:
                return SourceCall(f"{self.source.use('awaken', 'Message')}.{verb}", *given)
        return message

    def _call(self, made: RecordedCall) -> SourceCall:
        named = {"failed": made.failed or None, "data": made.data}
        name = self.source.use(_REPLAY, "RecordedCall")
        return SourceCall(
            name,
            made.tool,
            made.arguments,
            made.result,
            **{key: value for key, value in named.items() if value is not None},
        )

    def _approval(self, approval: Approval) -> SourceCall:
        name = self.source.use(_REPLAY, "Approval")
        return SourceCall(
            name, approval.tool, approval.arguments, self._decision(approval.decision)
        )

    def _decision(self, decision: ToolCallResume) -> object:
        name = self.source.use("awaken", "ToolCallResume")
        named = {"reason": decision.reason, "by": decision.by}
        said = {key: value for key, value in named.items() if value is not None}
        first: tuple[Json, ...] = ()
        if decision.action is ResumeAction.CANCEL and decision.result is None:
            verb = "deny"
        elif decision.mode is ToolCallResumeMode.PASS_DECISION_TO_TOOL:
            verb, first = "edit", (decision.result,)
        elif decision.mode is None and decision.action is ResumeAction.RESUME:
            verb, first = "approve", (decision.result,) if decision.result is not None else ()
        else:
            return decision
        return SourceCall(f"{name}.{verb}", *first, **said)

    def _answers(self) -> list[object]:
        script = self._recording.script(own_code=self._cast is not None)
        return [self._answer(answer, failure) for answer, failure in script]

    def _answer(self, answer: StreamResult, failure: str | None) -> object:
        if failure is None:
            return self._write_answer(answer)
        error = SourceCall("RuntimeError", failure)
        if not answer.content:
            return error
        stream = SourceCall(
            self.source.use("awaken.testing", "stream_of"), self._write_answer(answer)
        )
        return [SourceName(f"*{self.source.write(stream)}[:-1]"), error]

    def _write_answer(self, said: StreamResult) -> SourceCall:
        use = self.source.use
        parts: list[object] = [
            part.text if isinstance(part, Text) else part for part in said.content
        ]
        for made in said.tool_calls:
            named = {"id": made.id, "signature": made.signature}
            parts.append(
                SourceCall(
                    use(_REPLAY, "call"),
                    made.name,
                    made.arguments,
                    **{name: it for name, it in named.items() if it is not None},
                )
            )
        return SourceCall(use(_REPLAY, "answer"), *parts, **_manner(said))


def _manner(said: StreamResult) -> dict[str, object]:
    """The arguments that describe an answer besides its content."""
    manner: dict[str, object] = {}
    usage = said.usage
    if usage is not None and usage != TokenUsage(prompt_tokens=0, completion_tokens=0):
        pair = (usage.prompt_tokens, usage.completion_tokens)
        short = TokenUsage(prompt_tokens=pair[0], completion_tokens=pair[1])
        simple = msgspec.structs.replace(usage, total_tokens=None) == short
        manner["tokens"] = pair if simple else usage
    if said.stop_reason == "MaxTokens":
        manner["cut_off"] = True
    if said.has_incomplete_tool_calls:
        manner["garbled"] = True
    return manner


def _only_text(content: Sequence[ContentBlock]) -> str | None:
    """The text of content that is only one text; else `None`."""
    only = content[0] if len(content) == 1 else None
    return only.text if isinstance(only, Text) else None


def _harmless(text: str) -> str:
    """A name made safe for a docstring."""
    return "".join(each if each.isprintable() and each not in '\\"' else "?" for each in text)


# -- values as source -------------------------------------------------------------------------

WIDTH = 88
SHORT = 60
_PUBLIC = ("awaken", "awaken.events", "awaken.models", "awaken.tool")
"""Where the types of values are imported from, in source that has to work with later releases."""
_PLAIN = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class Source:
    """Writes values as Python source, and collects the names to import and the texts that are too
    long to stand inline.

    Args:
        beside: texts longer than this go into a file beside the source; `None` if there is no such
            file.
    """

    def __init__(self, beside: int | None = LONGEST) -> None:
        self.imports: dict[str, set[str]] = {}
        self.texts: dict[str, str] = {}
        self.large: dict[str, str] = {}
        self._beside = beside
        self.begin("TEXT")

    def use(self, module: str, name: str) -> str:
        """Returns a name, and notes that it has to be imported from a module."""
        self.imports.setdefault(module, set()).add(name)
        return name

    def _use_type(self, kind: type) -> str:
        return self.use(public_module(kind), kind.__name__)

    def begin(self, texts: str) -> None:
        """Use this prefix for the names of long texts from now on."""
        self._prefix = texts
        self._known: dict[str, str] = {}

    def write(self, value: Any, *, before: str = "", indent: int = 0) -> str:
        """The source of a value, after the text `before` on its first line, indented by
        `indent`."""
        return self._lay_out(before, value, indent, WIDTH)

    def _lay_out(self, before: str, value: Any, indent: int, room: int) -> str:
        """In one line if there is room, else one line for each item."""
        whole, pad = f"{' ' * indent}{before}{self._line(value)}", " " * indent
        parts = self._parts(value)
        if len(whole) <= room or parts is None or not parts[1]:
            return whole
        opening, items, closing = parts
        # Each item is followed by a comma.
        inner = [self._lay_out(head, item, indent + 4, WIDTH - 1) + "," for head, item in items]
        return "\n".join([f"{pad}{before}{opening}", *inner, f"{pad}{closing}"])

    def _line(self, value: Any) -> str:
        """The value in one line."""
        if isinstance(value, SourceName):
            return str(value)
        if isinstance(value, str) and not isinstance(value, Enum):
            return self._text(value)
        if parts := self._parts(value):
            opening, items, closing = parts
            inner = ", ".join(f"{head}{self._line(item)}" for head, item in items)
            comma = "," if opening == "(" and len(items) == 1 else ""
            return f"{opening}{inner}{comma}{closing}"
        if isinstance(value, Enum):
            return f"{self._use_type(type(value))}.{value.name}"
        return repr(value)

    def _parts(self, value: Any) -> tuple[str, list[tuple[str, Any]], str] | None:
        """The opening, items and closing of a value that can be split into lines; else `None`."""
        if isinstance(value, SourceCall):
            named = [(f"{name}=", item) for name, item in value.named.items()]
            return f"{value.name}(", [*(("", item) for item in value.args), *named], ")"
        if isinstance(value, msgspec.Struct):
            name = self._use_type(type(value))
            return f"{name}(", [(f"{field}=", item) for field, item in _set_fields(value)], ")"
        if isinstance(value, Mapping):
            items = [(f"{self._line(key)}: ", item) for key, item in value.items()]
            return "{", items, "}"
        if isinstance(value, tuple):
            return "(", [("", item) for item in value], ")"
        if isinstance(value, Sequence) and not isinstance(value, str):
            return "[", [("", item) for item in value], "]"
        return None

    def _text(self, text: str) -> str:
        literal = quote_text(text)
        if len(literal) <= SHORT:
            return literal
        if text not in self._known:
            if self._beside is not None and len(text) > self._beside:
                name = f"{self._prefix.lower()}_{len(self._known) + 1}"
                self.large[name] = text
                self._known[text] = f'TEXTS["{name}"]'
            else:
                name = f"{self._prefix}_{len(self._known) + 1}"
                self.texts[name] = text
                self._known[text] = name
        return self._known[text]


class SourceCall:
    """A call in the source: a name and its arguments."""

    def __init__(self, name: str, *args: object, **named: object) -> None:
        self.name = name
        self.args = args
        self.named = named


class SourceName(str):
    """A name in the source."""


@cache
def public_module(kind: type) -> str:
    """The public module that has a type.

    Raises:
        LookupError: no public module has it.
    """
    for name in _PUBLIC:
        module = import_module(name)
        if kind.__name__ in module.__all__ and getattr(module, kind.__name__) is kind:
            return name
    raise LookupError(f"{kind.__module__}.{kind.__name__} is in none of {', '.join(_PUBLIC)}")


def _set_fields(value: msgspec.Struct) -> Iterable[tuple[str, Any]]:
    """The fields of a value that differ from their defaults."""
    for info in msgspec.structs.fields(value):
        item = getattr(value, info.name)
        if info.default is not msgspec.NODEFAULT and item == info.default:
            continue
        if info.default_factory is not msgspec.NODEFAULT and item == info.default_factory():
            continue
        yield info.name, item


def quote_text(text: str) -> str:
    """A text as a literal in one line, in the quotes that need fewer backslashes."""
    quote = '"' if text.count('"') <= text.count("'") else "'"
    return quote + "".join(_escape(letter, quote) for letter in text) + quote


def block(name: str, text: str) -> str:
    """A long text as a constant, line by line; a line of the text that is too long is continued
    with a backslash."""
    lines = [_wrap(line) for line in text.split("\n")]
    return f'{name} = """\\\n' + "\n".join(lines) + '"""'


def _wrap(line: str) -> str:
    escaped = "".join(_escape(letter, "") if letter != "\t" else letter for letter in line)
    # A quote at the end of the last line would touch the closing quotes.
    escaped = re.sub(r'"(?="")|"$', lambda _: '\\"', escaped)
    if escaped.endswith((" ", "\t")):
        escaped = escaped[:-1] + ("\\x20" if escaped[-1] == " " else "\\t")
    pieces = [""]
    for word in re.findall(r"\S+\s*|\s+", escaped):
        if pieces[-1] and len(pieces[-1]) + len(word) > WIDTH - len('"""'):
            pieces.append("")
        pieces[-1] += word
    return "\\\n".join(pieces)


def _escape(letter: str, quote: str) -> str:
    if letter == quote:
        return f"\\{letter}"
    if letter in _PLAIN:
        return _PLAIN[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
