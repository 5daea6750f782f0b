"""The messages of a chat for a page that is loaded: users' messages, and one for each run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from awaken.codec import Json
from awaken.core.event import RunEvent
from awaken.core.message import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    MediaSource,
    Message,
    Text,
    UrlSource,
    Video,
)
from awaken.core.run import RunRecord
from awaken.server.protocols.ai_sdk.builder import MessageBuilder
from awaken.server.protocols.ai_sdk.encode import V7, AiSdkEncoder

_ANY_TYPE = {Image: "image/*", Audio: "audio/*", Video: "video/*", Document: "application/*"}


class History:
    """Reads the events of a thread and of its delegates, and builds the messages of the page.

    Args:
        thread_id: the thread, as the client sees it.
        runs: the runs to show.
    """

    def __init__(self, thread_id: str, runs: Sequence[RunRecord]) -> None:
        self._encoders = {run.run_id: _encoder(thread_id, run) for run in runs}
        self._builders = {run_id: MessageBuilder() for run_id in self._encoders}
        self._run_by_question = _latest_by_question(runs)
        self._roots = {run_id: run_id for run_id in self._encoders}
        for run_id, encoder in self._encoders.items():
            self._apply(run_id, encoder.start())

    def read(self, event: RunEvent) -> None:
        """Apply an event; events of runs that are not shown are ignored."""
        root = self._roots.get(event.run_id) or self._roots.get(event.parent_run_id or "")
        if root is not None:
            self._roots[event.run_id] = root
            self._apply(root, self._encoders[root].encode(event))

    def _apply(self, run_id: str, chunks: Iterable[Json]) -> None:
        for chunk in chunks:
            self._builders[run_id].apply(chunk)

    def messages(self, log: Iterable[Message]) -> list[Json]:
        """The messages of the page, in the order of the log. A run without a message in the log is
        shown only if it failed or was cancelled before it wrote anything, behind the message that
        it was to answer; messages of other runs were rewound."""
        for run_id, encoder in self._encoders.items():
            self._apply(run_id, encoder.finish())
        return list(self._in_order(log))

    def _in_order(self, log: Iterable[Message]) -> Iterator[Json]:
        log = list(log)
        runs_in_log = {message.produced_by_run_id() for message in log}
        shown: set[str] = set()
        for message in log:
            run_id = message.produced_by_run_id()
            if message.is_visible_user():
                yield _user_message(message)
                silent_run = self._run_by_question.get(message.id or "")
                if (
                    silent_run is not None
                    and silent_run not in runs_in_log
                    and self._has_ended_early(silent_run)
                ):
                    yield self._builders[silent_run].message()
            elif run_id in self._builders and run_id not in shown:
                shown.add(run_id)
                yield self._builders[run_id].message()

    def _has_ended_early(self, run_id: str) -> bool:
        return "termination" in self._builders[run_id].metadata


def _latest_by_question(runs: Iterable[RunRecord]) -> dict[str, str]:
    """The latest run by the id of the last message that it was to answer."""
    found: dict[str, str] = {}
    for run in sorted(runs, key=lambda run: (run.created_at_ms, run.run_id)):
        if run.request is not None and run.request.input_message_ids:
            found[run.request.input_message_ids[-1]] = run.run_id
    return found


def _encoder(thread_id: str, run: RunRecord) -> AiSdkEncoder:
    return AiSdkEncoder(
        thread_id=thread_id,
        run_id=run.run_id,
        agent_id=run.agent_id,
        frontend=frontend_of(run),
        version=V7,
    )


def frontend_of(run: RunRecord) -> list[str]:
    """The names of the tools that the page carries out itself."""
    return [tool.id for tool in run.request.frontend_tools] if run.request is not None else []


def _user_message(message: Message) -> Json:
    parts = list(chain.from_iterable(_parts(block) for block in message.content))
    return {"id": message.id, "role": "user", "parts": parts}


def _parts(block: ContentBlock) -> Iterator[Json]:
    match block:
        case Text(text=text):
            yield {"type": "text", "text": text}
        case Image(source=source) | Audio(source=source) | Video(source=source):
            yield _file(source, _ANY_TYPE[type(block)])
        case Document(source=source, title=title):
            name = {"filename": title} if title else {}
            yield _file(source, _ANY_TYPE[Document]) | name


def _file(source: MediaSource, any_type: str) -> dict[str, Json]:
    match source:
        case UrlSource(url=url):
            return {"type": "file", "mediaType": any_type, "url": url}
        case Base64Source(media_type=media_type, data=data):
            url = f"data:{media_type};base64,{data}"
            return {"type": "file", "mediaType": media_type, "url": url}
        case _:
            # The caller puts the bytes of blobs into the messages; this one was not among them.
            name = source.name or source.media_type
            return {"type": "text", "text": f"[a file, {name}, that cannot be shown here]"}
