"""Commands and answers in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from awaken.contract.commands import ThreadCommand
from awaken.domain.suspension import Decision
from awaken.domain.ticket import Ticket, TicketStatus
from awaken.errors import NotFound
from awaken.stores.answers import answered, check_sent, command_of
from awaken.stores.memory.tables import ANY, Tables


class MemoryCommands(Tables):
    """Kept until a commit acknowledges them."""

    async def send(self, command: ThreadCommand) -> int:
        check_sent(command)
        thread = self._threads.get(command.thread_id)
        if thread is None:
            raise NotFound("thread", command.thread_id)
        return self._keep(thread, command)

    async def decide(
        self, thread_id: str, decisions: Sequence[Decision], *, at_ms: int
    ) -> int | None:
        thread = self._threads.get(thread_id)
        tickets = thread.tickets if thread is not None else {}
        taken: dict[str, Ticket] = {}
        for target, answer in decisions:
            meant = _meant({**tickets, **taken}, target)
            ticket = answered(target, answer, meant, lambda: _open(tickets), at_ms)
            if ticket is not None:
                taken[ticket.key] = ticket
        if thread is None or not taken:
            return None
        thread.tickets.update(taken)
        return self._keep(thread, command_of(thread_id, taken.values(), at_ms))

    async def load_commands(self, thread_id: str) -> Sequence[ThreadCommand]:
        thread = self._threads.get(thread_id)
        return list(thread.commands.values()) if thread else []

    async def next_commands(self, after: int) -> Sequence[ThreadCommand]:
        while True:
            found = [command for number, command in self._commands.items() if number > after]
            if found:
                return found
            await self._sent.wait(ANY)


def _meant(tickets: Mapping[str, Ticket], target: str) -> list[Ticket]:
    if target in tickets:
        return [tickets[target]]
    return [ticket for ticket in tickets.values() if ticket.answers_to(target)]


def _open(tickets: Mapping[str, Ticket]) -> list[Ticket]:
    return [ticket for ticket in tickets.values() if ticket.status is TicketStatus.OPEN]
