"""The entries that a thread's commits and runs have in the search index. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from awaken.codec import dumps_text
from awaken.core.event import Error, InferenceComplete, RunFinish, StepStart
from awaken.core.lifecycle import (
    Blocked,
    CancelledEnd,
    Failed,
    RunStatus,
    Stopped,
    TerminationReason,
)
from awaken.core.message import (
    Citation,
    Document,
    Message,
    Role,
    Text,
    ToolResultBlock,
    ToolUse,
    Visibility,
)
from awaken.core.rewind import Hidden, is_hidden
from awaken.core.run import RunRecord
from awaken.core.search.index import MAX_TEXT_PIECE, EntryUpdate
from awaken.core.search.query import NANOS, EndWord, tag
from awaken.core.store.threads import CommitView
from awaken.core.thread import Thread, ThreadMetadata

_SHOWN_QUESTION = 400


class EntryBuilder:
    """Collects what commits say of one run, or of a thread apart from its runs."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._tags: dict[str, None] = {}
        self._question = ""
        self._model = ""
        self._at_ms: int | None = None

    def add(self, commit: CommitView, hidden: Hidden) -> None:
        """Add a commit, but for its messages that are out of view."""
        self._at_ms = self._at_ms or commit.at_ms
        for seq, message in enumerate(commit.messages, start=commit.first_seq):
            if not is_hidden(hidden, seq):
                self._add_message(message)
        for event in commit.events:
            match event.event:
                case StepStart(agent_id=str(agent)):
                    self._add_tag("agent", agent)
                case InferenceComplete(model=model):
                    self._model = model
                    self._add_tag("model", model)
                case Error(message=text):
                    self._texts.append(text[:MAX_TEXT_PIECE])
                case RunFinish(termination=termination):
                    if why := _reason(termination):
                        self._texts.append(why[:MAX_TEXT_PIECE])

    def _add_message(self, message: Message) -> None:
        if message.visibility is Visibility.INTERNAL or message.role is Role.SYSTEM:
            return
        if message.role is Role.USER and not self._question:
            self._question = message.text()[:_SHOWN_QUESTION]
        self._texts += texts_of(message)
        for call in message.tool_calls or ():
            self._add_tag("tool", call.name)

    def _add_tag(self, name: str, value: str) -> None:
        self._tags[tag(name, value)] = None

    def of_run(self, run: RunRecord) -> EntryUpdate:
        """The entry of a run, with its record as it is now."""
        asked = run.request
        user = (asked.user if asked is not None else None) or ""
        self._add_tag("agent", run.agent_id)
        if user:
            self._add_tag("user", user)
        for label in _labels(asked.labels if asked is not None else {}):
            self._add_tag("label", label)
        return EntryUpdate(
            run_id=run.run_id,
            agent=run.agent_id,
            model=self._model,
            user=user,
            status=status_word(run),
            started_ms=run.started_at_ms or run.created_at_ms or run.created_at * 1000,
            updated_ms=run.updated_at_ms or run.updated_at * 1000,
            input_tokens=run.input_tokens,
            output_tokens=run.output_tokens,
            cost=None if run.cost is None else round(run.cost * NANOS),
            question=self._question,
            texts=tuple(self._texts),
            tags=tuple(self._tags),
        )

    def of_messages(self, thread: Thread) -> EntryUpdate:
        """The entry of a thread's messages that are no run's: those of a copy, or given to it."""
        return EntryUpdate(
            user=thread.metadata.user or "",
            started_ms=self._at_ms or thread.created_at,
            updated_ms=self._at_ms or thread.updated_at,
            question=self._question,
            texts=tuple(self._texts),
            tags=tuple(self._tags),
        )


def title_entry(thread: Thread) -> EntryUpdate:
    """The entry of a thread's title and id."""
    said = thread.metadata
    return EntryUpdate(
        is_title=True,
        user=said.user or "",
        started_ms=thread.created_at,
        updated_ms=thread.updated_at,
        question=said.title or "",
        texts=(said.title, thread.id) if said.title else (thread.id,),
    )


def texts_of(message: Message) -> Iterator[str]:
    """The texts of a message that are indexed, each cut: what was said, the names and arguments of
    calls, and results. Thoughts and media are not among them."""
    for block in message.content:
        match block:
            case Text(text=text):
                yield text[:MAX_TEXT_PIECE]
            case ToolResultBlock(content=parts):
                yield " ".join(part.text for part in parts if isinstance(part, Text))[
                    :MAX_TEXT_PIECE
                ]
            case ToolUse(name=name, input=given):
                yield f"{name} {dumps_text(given)[:MAX_TEXT_PIECE]}"
            case Citation(title=str(title)) | Document(title=str(title)):
                yield title[:MAX_TEXT_PIECE]
    for call in message.tool_calls or ():
        yield f"{call.name} {_readable(dumps_text(call.arguments)[:MAX_TEXT_PIECE])}"


def _readable(json: str) -> str:
    r"""JSON with blanks for its escapes: of "a\nb", `nb` would be a word."""
    for sign in ("\\n", "\\t", "\\r"):
        json = json.replace(sign, " ")
    return json


def thread_tags(metadata: ThreadMetadata) -> tuple[str, ...]:
    """The tags that a thread's metadata gives all of its runs."""
    tags = [tag("label", label) for label in _labels(metadata.labels)]
    return tuple(tags if metadata.user is None else [*tags, tag("user", metadata.user)])


def _labels(labels: Mapping[str, str]) -> Iterable[str]:
    """What a filter may ask for of labels: each name, and each name with its value."""
    for name, value in labels.items():
        yield name
        yield f"{name}={value}"


def status_word(run: RunRecord) -> str:
    """The word for the status of a run: of one that has ended, how it ended."""
    if run.status is not RunStatus.DONE:
        return run.status.value
    match run.termination_reason:
        case Failed():
            return EndWord.FAILED
        case CancelledEnd():
            return EndWord.CANCELLED
        case Stopped():
            return EndWord.STOPPED
        case Blocked():
            return EndWord.BLOCKED
    return EndWord.FINISHED


def _reason(termination: TerminationReason | None) -> str:
    match termination:
        case Failed(value=why) | Blocked(value=why):
            return why
        case Stopped(value=stopped):
            return f"{stopped.code} {stopped.detail or ''}"
    return ""
