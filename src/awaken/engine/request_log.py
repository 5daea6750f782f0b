"""The requests of a run to its models: a manifest of each one is committed with its answer.

A step costs the same in a thread of any length: only messages that the last request did not show
are looked at. After a change in the middle of the conversation, such as a summary, all of them are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from awaken.codec import dumps
from awaken.core.identity import RunIdentity
from awaken.core.llm import InferenceRequest
from awaken.core.message import ContentBlock, Message, Text
from awaken.core.request_manifest import (
    FailedAttempt,
    RequestManifest,
    RequestSettings,
    Shown,
    StoredText,
    UnloggedMessage,
)
from awaken.core.tool import ToolDescriptor
from awaken.core.transcript import MessageSequence
from awaken.engine.journal import Journal
from awaken.engine.transcript import LiveTranscript

MOST_ENTRIES = 8
"""A manifest that differs from the one it is like by more entries is the one that later manifests
are like."""
_MOST_TOOLS = 64
"""For how many lists of tools the text is kept in memory."""

log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace


class SentRequest(msgspec.Struct, frozen=True, gc=False):
    """A request that a run has made, as its listener has seen it.

    `request` is as the run made it, `sent` has its media loaded, and `asked` is what the model got
    in the end: it may have other overrides, another model, and more messages behind those of
    `sent`, if a stream was interrupted. `repeats` is the earlier request that the run has copied to
    make `request`, with the conversation as it is now.
    """

    request: InferenceRequest
    sent: InferenceRequest
    asked: InferenceRequest
    attempts: tuple[FailedAttempt, ...] = ()
    first_ms: int | None = None
    repeats: InferenceRequest | None = None


class _Base(msgspec.Struct, frozen=True, gc=False):
    """The manifest that later ones are like: the position of its answer, the list that it showed,
    the entries of its head, and how many entries of the list cannot change any more."""

    seq: int
    source: list[Message]
    head: tuple[Shown, ...]
    closed: int


class RequestKeeper:
    """Makes the manifests of one run's requests, and gives them to its journal."""

    __slots__ = (
        "_alike",
        "_base",
        "_index",
        "_indexed",
        "_journal",
        "_list",
        "_next",
        "_parts",
        "_run_id",
        "_settings",
        "_texts",
        "_thread_id",
        "_transcript",
    )

    def __init__(self, transcript: LiveTranscript, journal: Journal, identity: RunIdentity) -> None:
        self._transcript, self._journal = transcript, journal
        self._thread_id, self._run_id = identity.thread_id, identity.run_id
        self._settings: RequestSettings | None = None
        self._parts: tuple[Any, ...] = ()
        self._texts: tuple[str, ...] = ()  # few: a set would take four times the memory
        self._base: _Base | None = None
        # The next manifest, if it may differ only by more messages; and a request that differs from
        # the last one in no more than that.
        self._next: RequestManifest | None = None
        self._alike: InferenceRequest | None = None
        self._list: _ShownList | None = None
        # The positions of messages by id, made when first needed, and how many are in it.
        self._index: dict[str | None, int] | None = None
        self._indexed = 0

    def keep(self, message_id: str, sent: SentRequest) -> None:
        """Commit a request with its answer, which is the next message of the log.

        A request that cannot be written as JSON is not kept; the run does not fail for that.
        """
        try:
            if self._next is not None and (grown := self._extend_shown(sent)) is not None:
                manifest = _replace(
                    self._next, message_id=message_id, shown=(grown,), first_ms=sent.first_ms
                )
            else:
                manifest = self._first(message_id, sent) or self._manifest(message_id, sent)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            log.warning("the request for message %s is not kept: %s", message_id, error)
            self._base = self._next = None
        else:
            self._journal.requests += (manifest,)

    def _extend_shown(self, sent: SentRequest) -> Shown | None:
        """The messages that a request shows, if it is like the last one but for the messages logged
        since, as in most steps. Returns `None` for any other request."""
        request, known, repeats = sent.request, self._list, sent.repeats
        if sent.asked is not request or sent.attempts:
            return None
        if known is None or known.source is not self._transcript.items:
            return None
        if (repeats is None or repeats is not self._alike) and not self._is_alike(request):
            return None
        # Messages are appended to this list and to the log together, so none is looked at.
        stop = len(request.messages)
        known.high += stop - known.seen
        known.seen = stop
        return known.low, known.high

    def _is_alike(self, request: InferenceRequest) -> bool:
        """Whether a request differs from the last one only in how much of the conversation it
        shows, from its beginning and with no message put in."""
        view, known, last = request.messages, self._list, self._alike
        return (
            type(view) is MessageSequence
            and known is not None
            and last is not None
            and view.is_start_of(known.source)
            and request.tools is last.tools
            and request.system == last.system
            and request.overrides == last.overrides
            and request.output is last.output
            and request.upstream_model == last.upstream_model
            and request.enable_prompt_cache is last.enable_prompt_cache
            and request.routing_key == last.routing_key
        )

    def _first(self, message_id: str, sent: SentRequest) -> RequestManifest | None:
        """The manifest of the run's first request, if it shows the conversation as it is logged, as
        in most runs. Returns `None` for any other request."""
        request, transcript = sent.request, self._transcript
        view, source = request.messages, transcript.items
        if self._list is not None or sent.asked is not request or sent.attempts:
            return None
        if type(view) is not MessageSequence or not view.is_start_of(source):
            return None
        count, low = len(view), transcript.first_seq
        if not count or low + count != transcript.next_seq:
            return None  # it shows less than the end of the log, as after a rewind
        if transcript.count_equal(source, 0, count, low) < count:
            return None
        settings = self._settings_of(request)
        self._list = _ShownList(source)
        self._list.add_range(low, count)
        base = self._base = _Base(transcript.next_seq, source, (), 0)
        manifest = RequestManifest(
            message_id=message_id,
            shown=((low, low + count - 1),),
            settings=settings,
            overrides=request.overrides,
            first_ms=sent.first_ms,
        )
        self._next, self._alike = _replace(manifest, like=base.seq, settings=None), request
        return manifest

    def _manifest(self, message_id: str, sent: SentRequest) -> RequestManifest:
        """The manifest of any request."""
        request, asked, base, before = sent.request, sent.asked, self._base, self._settings
        settings, shown = self._settings_of(request), request.messages
        more: Sequence[Message] = ()
        if asked is not sent.sent and asked.messages is not sent.sent.messages:
            shown, more = _split_added_messages(sent)
        view = shown if isinstance(shown, MessageSequence) else MessageSequence(list(shown))
        source, stop, first, last = view.parts()
        known = self._list
        if known is None or source is not known.source or stop < known.seen:
            known, base = _ShownList(source), None
            self._list = known
        if known.seen < stop:
            self._take(known, stop)
        head = tuple(self._entries(first)) if first else ()
        tail: Sequence[Shown] = self._entries((*last, *more)) if last or more else ()
        if base is not None and settings is before and source is base.source and head == base.head:
            like, start, own_settings = base.seq, base.closed, None
            entries = own = known.entries_from(start)
            same = len(head) + start
        else:
            like, same, own_settings = None, 0, settings
            own = known.entries_from(0)
            entries = [*head, *own]
        if like is None or len(own) > MOST_ENTRIES:
            self._base = _Base(self._transcript.next_seq, source, head, len(known.closed))
        model = asked.upstream_model
        manifest = RequestManifest(
            message_id=message_id,
            like=like,
            same=same,
            shown=(*entries, *tail),
            settings=own_settings,
            overrides=asked.overrides,
            answered_by=model if model != settings.model else None,
            attempts=sent.attempts,
            first_ms=sent.first_ms,
        )
        is_range = known.high > 0 and len(manifest.shown) == 1
        is_plain = asked is request and not (sent.attempts or head)
        self._next = manifest if is_range and is_plain and like is not None else None
        self._alike = sent.repeats or request
        return manifest

    # -- the settings -------------------------------------------------------------------------

    def _settings_of(self, request: InferenceRequest) -> RequestSettings:
        """The settings of a request: the same object as before if they are the same."""
        known, parts = self._settings, self._parts
        if (
            known is not None
            and request.tools is parts[0]
            and request.output is parts[1]
            and request.system == parts[2]
            and request.upstream_model == known.model
            and request.enable_prompt_cache is known.prompt_cache
        ):
            return known
        output = request.output
        made = RequestSettings(
            thread_id=self._thread_id,
            run_id=self._run_id,
            model=request.upstream_model,
            system=self._add_text(_system_text(request.system)) if request.system else None,
            tools=self._add_text(_tools_text(request.tools)) if request.tools else None,
            output=self._add_text(_text(output)) if output is not None else None,
            prompt_cache=request.enable_prompt_cache,
        )
        self._parts = (request.tools, request.output, request.system)
        self._settings = settings = made if known is None or made != known else known
        return settings

    def _add_text(self, text: StoredText) -> str:
        """Commit a text, unless this run has done so. Returns its digest."""
        if text.digest not in self._texts:
            self._texts = (*self._texts, text.digest)
            self._journal.texts += (text,)
        return text.digest

    # -- the messages -------------------------------------------------------------------------

    def _take(self, known: _ShownList, stop: int) -> None:
        """Look at the messages of a list that are new, up to the index `stop`."""
        source, transcript = known.source, self._transcript
        while (at := known.seen) < stop:
            guess = known.high + 1 if known.high else transcript.first_seq
            count = transcript.count_equal(source, at, stop, guess)
            if not count and (found := self._seq_of(source[at])) is not None:
                guess = found
                count = transcript.count_equal(source, at, stop, guess)
            if count:
                known.add_range(guess, count)
            else:
                known.add(self._build_unlogged(source[at]))

    def _entries(self, messages: Sequence[Message]) -> list[Shown]:
        some = _ShownList(list(messages))
        self._take(some, len(messages))
        return some.entries_from(0)

    def _seq_of(self, message: Message) -> int | None:
        """The position in the log of the message with this message's id."""
        transcript, index = self._transcript, self._index
        if index is None:
            index = self._index = {}
            self._indexed = transcript.first_seq - 1
        for seq in range(self._indexed + 1, transcript.next_seq):
            logged = transcript.message_at(seq)
            index[logged.id] = seq
            self._indexed = seq
        return index.get(message.id)

    def _build_unlogged(self, message: Message) -> UnloggedMessage:
        digest = self._add_text(_text(_replace(message, id=None)))
        seq = self._seq_of(message)
        return UnloggedMessage(text=digest, id=message.id if seq is None else None, seq=seq)


class _ShownList:
    """The messages of a growing list as entries of a manifest. The last range, from `low` to
    `high`, may still grow; `closed` are the entries before it."""

    __slots__ = ("closed", "high", "low", "seen", "source")

    def __init__(self, source: list[Message]) -> None:
        self.source, self.seen = source, 0
        self.closed: list[Shown] = []
        self.low = self.high = 0

    def add_range(self, seq: int, count: int) -> None:
        self.seen += count
        high = self.high
        if high and seq == high + 1:
            self.high = high + count
            return
        self._close()
        self.low, self.high = seq, seq + count - 1

    def add(self, entry: UnloggedMessage) -> None:
        self.seen += 1
        self._close()
        self.closed.append(entry)

    def _close(self) -> None:
        if self.high:
            self.closed.append((self.low, self.high))
            self.low = self.high = 0

    def entries_from(self, start: int) -> list[Shown]:
        if not self.high:
            return self.closed[start:]
        if start == len(self.closed):
            return [(self.low, self.high)]
        return [*self.closed[start:], (self.low, self.high)]


def _split_added_messages(sent: SentRequest) -> tuple[Sequence[Message], tuple[Message, ...]]:
    """The messages that the model got, and those that the driver has added behind them."""
    loaded, asked = sent.sent.messages, sent.asked.messages
    count = len(loaded)
    if len(asked) > count and (count == 0 or asked[count - 1] is loaded[count - 1]):
        return sent.request.messages, tuple(asked[count:])
    return asked, ()


# -- texts ------------------------------------------------------------------------------------


def _text(value: object) -> StoredText:
    import hashlib  # noqa: PLC0415  # see `codec.digest`

    body = dumps(value)
    return StoredText(hashlib.sha256(body).hexdigest()[:32], body)


@lru_cache(maxsize=64)
def _prompt_text(prompt: str) -> StoredText:
    return _text((Text(text=prompt),))


def _system_text(system: tuple[ContentBlock, ...]) -> StoredText:
    block = system[0]
    if len(system) == 1 and isinstance(block, Text) and block.whole is None:
        return _prompt_text(block.text)
    return _text(system)


_tools_texts: dict[int, tuple[tuple[ToolDescriptor, ...], StoredText]] = {}


def _tools_text(tools: tuple[ToolDescriptor, ...]) -> StoredText:
    # Descriptors have no hash. The tuple is kept with its text, so its address is not used again.
    known = _tools_texts.get(id(tools))
    if known is None:
        if len(_tools_texts) >= _MOST_TOOLS:
            _tools_texts.clear()
        known = _tools_texts[id(tools)] = (tools, _text(tools))
    return known[1]
