"""Commands and answers in the memory store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from itertools import takewhile

from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.suspension import Decision, Ticket, TicketStatus
from awaken.core.thread import Thread
from awaken.errors import NotFound
from awaken.stores.memory.tables import ANY_THREAD
from awaken.stores.memory.threads import MemoryReads
from awaken.stores.rules import answer_ticket, check_send, decisions_command
from awaken.stores.waiting import CommandPoller


class MemoryCommands(MemoryReads):
    """The commands part of the memory store."""

    async def send(self, command: ThreadCommand) -> int:
        check_send(command)
        thread = self._threads.get(command.thread_id)
        if thread is None:
            raise NotFound("thread", command.thread_id)
        return self._add_command(thread, command)

    async def decide(
        self, thread_id: str, decisions: Sequence[Decision], *, at_ms: int
    ) -> int | None:
        thread = self._threads.get(thread_id)
        tickets = thread.tickets if thread is not None else {}
        taken: dict[str, Ticket] = {}
        for target, answer in decisions:
            meant = _find_candidates({**tickets, **taken}, target)
            ticket = answer_ticket(target, answer, meant, lambda: _open(tickets), at_ms)
            if ticket is not None:
                taken[ticket.key] = ticket
        if thread is None or not taken:
            return None
        thread.tickets.update(taken)
        return self._add_command(thread, decisions_command(thread_id, taken.values(), at_ms))

    async def cancel_tree(
        self, thread_id: str, *, at_ms: int, by: str | None = None
    ) -> Sequence[Thread]:
        tree = [
            thread
            for thread in self._threads.values()
            if thread.open_run_id is not None
            and any(row.id == thread_id for row in self._ancestors(thread))
        ]
        tree.sort(key=lambda thread: (thread.created_at, thread.id))
        for thread in tree:
            run_id = thread.open_run_id or ""
            if not any(_cancels(command, run_id) for command in thread.commands.values()):
                self._add_command(
                    thread, ThreadCommand.cancel(thread.id, run_id, at_ms=at_ms, by=by)
                )
        return [self._head(thread) for thread in tree]

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        thread = self._threads.get(thread_id)
        commands = thread.commands if thread is not None else {}
        return [command for number, command in commands.items() if number not in skip]

    async def is_pending(self, id: int) -> bool:
        return id in self._commands

    async def list_outboxes(self) -> Sequence[str]:
        return sorted(name for name in self._outboxes if name not in self._owners)

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        poller = CommandPoller(asyncio.get_running_loop().time)
        yield poller.select_threads(self._waiting(0), 0)
        while True:
            # No other task runs between a read and the wait behind it, so no command is missed.
            if not self._commands:
                await self._sent.wait(ANY_THREAD)
            after = poller.read_after
            if threads := poller.select_threads(self._waiting(after), after):
                yield threads
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(poller.seconds_left):
                    await self._sent.wait(ANY_THREAD)

    def _waiting(self, after: int) -> dict[int, str]:
        """The threads of the pending commands that are due, with ids above `after`, by id.

        They are found from the end, where new commands are.
        """
        found = takewhile(lambda item: item[0] > after, reversed(self._commands.items()))
        now = self._clock.now_ms()
        return {number: one.thread_id for number, one in found if one.is_due(now)}


def _cancels(command: ThreadCommand, run_id: str) -> bool:
    return command.kind is CommandKind.CANCEL and command.run_id in (None, run_id)


def _find_candidates(tickets: Mapping[str, Ticket], target: str) -> list[Ticket]:
    if target in tickets:
        return [tickets[target]]
    return [ticket for ticket in tickets.values() if ticket.answers_to(target)]


def _open(tickets: Mapping[str, Ticket]) -> list[Ticket]:
    return [ticket for ticket in tickets.values() if ticket.status is TicketStatus.OPEN]
