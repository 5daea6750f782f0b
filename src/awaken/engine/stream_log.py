"""Storing an answer while it is streamed, so that another process can continue it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from awaken.core.aio.owned_tasks import start_task
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.store.commits import StreamLogEntry
from awaken.engine.live_run import LiveRun

KEPT_AT_LOOK = 4
"""Every fourth call of `look` stores what has arrived of an answer: about once a second."""
_NOTHING_KEPT: tuple[int, Mapping[str, int]] = (0, {})


class StreamLog:
    """Stores one answer in pieces while it arrives, and restores what an earlier process stored.

    `asked` identifies the request that is answered.
    """

    def __init__(self, run: LiveRun, asked: str) -> None:
        self._run, self._journal, self._asked = run, run.journal, asked
        self._looks = self._number = 0
        self._kept = _NOTHING_KEPT
        self._writing: asyncio.Future[None] | None = None

    def restore(self, heard: StreamAccumulator) -> str:
        """Begin `heard` with the pieces that an earlier process stored for the same request.
        Returns their text, or "" if there are none or some are missing."""
        pieces, self._run.stream_log = self._run.stream_log, ()
        if not pieces:
            return ""
        self._journal.extras.ends_stream = True
        if not self._is_whole(pieces):
            return ""
        calls: dict[str, tuple[str, str]] = {}
        for id, name, written in (call for piece in pieces for call in piece.calls):
            calls[id] = (name, calls.get(id, ("", ""))[1] + written)
        text = "".join(piece.text for piece in pieces)
        heard.restore(text, [(id, name, written) for id, (name, written) in calls.items()])
        return text

    def _is_whole(self, pieces: Sequence[StreamLogEntry]) -> bool:
        mine = (self._run.identity.run_id, self._asked)
        return all((piece.run_id, piece.asked) == mine for piece in pieces) and [
            piece.number for piece in pieces
        ] == list(range(1, len(pieces) + 1))

    def look(self, heard: StreamAccumulator) -> None:
        """Store the text since the last piece, unless that piece is still being written."""
        self._looks += 1
        if self._looks % KEPT_AT_LOOK or not self._journal.keeps_streams:
            return
        if self._writing is not None and not self._writing.done():
            return
        piece = self._next(heard)
        if piece is not None:
            self._number = piece.number
            self._writing = start_task(self._write(piece))

    def start_over(self) -> None:
        """Number the next piece 1: what arrives next does not continue the stored pieces."""
        self._number = 0

    async def _write(self, piece: StreamLogEntry) -> None:
        if not await self._journal.keep_piece(piece):
            self.start_over()  # a stored answer must not have a gap

    def _next(self, heard: StreamAccumulator) -> StreamLogEntry | None:
        said, written = self._kept if self._number else _NOTHING_KEPT
        text, calls = heard.snapshot().text, heard.list_call_texts()
        self._kept = (len(text), {id: len(arguments) for id, _, arguments in calls})
        news = [
            (id, name, arguments[written.get(id, 0) :])
            for id, name, arguments in calls
            if len(arguments) > written.get(id, -1)
        ]
        if len(text) == said and not news:
            return None
        return StreamLogEntry(
            run_id=self._run.identity.run_id,
            asked=self._asked,
            message_id=self._run.message_id,
            number=self._number + 1,
            text=text[said:],
            calls=tuple(news),
            at_ms=self._run.clock.now_ms(),
        )

    @property
    def is_writing(self) -> bool:
        """Whether a piece may still be being written."""
        return self._writing is not None

    async def wait_settled(self) -> None:
        """Wait for the piece that is being written. The caller commits afterwards, and the commit
        deletes all pieces."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
