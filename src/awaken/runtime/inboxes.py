"""Whether a message that may come twice has come before."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence

from awaken.contract.store import Store
from awaken.domain.message import Message, Role

PAGE = 100
REMEMBERED = 200
"""How many threads are kept in mind."""
SKEW_MS = 60_000
"""How far the clocks of two machines may be apart."""

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7")


class _Log:
    """The ids of a stretch of a log that was read, and when it was begun, if that is known."""

    __slots__ = ("begun", "end", "ids", "start")

    def __init__(self, end: int) -> None:
        self.start = self.end = end
        self.begun: int | None = None
        self.ids: set[str | None] = set()

    def add(self, page: Sequence[Message], start: int) -> None:
        self.start, self.end = min(self.start, start), max(self.end, start + len(page))
        self.ids.update(message.id for message in page)
        # An answer enters the log as soon as it is made; all that is above it is older still.
        answers = (_made_at(message.id) for message in page if message.role is Role.ASSISTANT)
        times = [at for at in (self.begun, *answers) if at is not None]
        self.begun = min(times, default=None)

    def covers(self, message_id: str) -> bool:
        """Whether all is known that came since a message was made."""
        made = _made_at(message_id)
        begun_before = made is not None and self.begun is not None and self.begun + SKEW_MS < made
        return self.start == 0 or begun_before


class Inboxes:
    """What threads have got so far. Their logs only grow, so each part is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._logs: OrderedDict[str, _Log] = OrderedDict()

    async def has(self, thread_id: str, message_id: str) -> bool:
        """Whether a message is kept for a thread, or a run has read it."""
        # In this order: what is read meanwhile is in the log by then.
        return await self.keeps(thread_id, message_id) or await self._logged(thread_id, message_id)

    async def keeps(self, thread_id: str, message_id: str) -> bool:
        """Whether a message is kept for a thread, and no run has taken it up."""
        commands = await self._store.load_commands(thread_id)
        return any(message.id == message_id for c in commands for message in c.messages)

    async def _logged(self, thread_id: str, message_id: str) -> bool:
        thread = await self._store.load_thread(thread_id)
        if thread is None or not thread.message_count:
            self._logs.pop(thread_id, None)
            return False
        log = self._logs.get(thread_id)
        if log is None or log.end > thread.message_count:
            log = self._logs[thread_id] = _Log(thread.message_count)
        self._logs.move_to_end(thread_id)
        if len(self._logs) > REMEMBERED:
            self._logs.popitem(last=False)
        if log.end < thread.message_count:
            after = log.end
            log.add(await self._store.load_messages(thread_id, after=after), after)
        while message_id not in log.ids and not log.covers(message_id):
            end = log.start
            start = max(0, end - PAGE)
            log.add(
                await self._store.load_messages(thread_id, after=start, limit=end - start), start
            )
        return message_id in log.ids


def _made_at(id: str | None) -> int | None:
    """When an id was made, in milliseconds, if it says so."""
    return int(id[:8] + id[9:13], 16) if id is not None and _UUID7.match(id) else None
