"""Commands and answers in memory."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.domain.suspension import Decision
from awaken.errors import InvalidRecord, NotFound
from awaken.stores.memory.tables import Tables, ThreadRow
from awaken.stores.memory.tickets import answer

_ANY = "any thread"


class MemoryCommands(Tables):
    """Kept until a commit acknowledges them."""

    async def send(self, command: ThreadCommand) -> int:
        if command.kind is CommandKind.DECISIONS:
            raise InvalidRecord(
                "decisions are not sent: call `decide`, which answers their tickets"
            )
        thread = self._threads.get(command.thread_id)
        if thread is None:
            raise NotFound("thread", command.thread_id)
        return self._keep(thread, command)

    async def decide(
        self, thread_id: str, decisions: Sequence[Decision], *, at_ms: int
    ) -> int | None:
        thread = self._threads.get(thread_id)
        answered = answer(thread.tickets if thread else {}, decisions, at_ms)
        if thread is None or not answered:
            return None
        thread.tickets.update(answered)
        runs = {ticket.run_id for ticket in answered.values()}
        taken = [(key, ticket.decision) for key, ticket in answered.items()]
        command = ThreadCommand(
            thread_id=thread_id,
            kind=CommandKind.DECISIONS,
            run_id=runs.pop() if len(runs) == 1 else None,
            decisions=tuple((key, resume) for key, resume in taken if resume is not None),
            at_ms=at_ms,
        )
        return self._keep(thread, command)

    def _keep(self, thread: ThreadRow, command: ThreadCommand) -> int:
        self._commands_sent += 1
        number = self._commands_sent
        kept = msgspec.structs.replace(command, id=number)
        thread.commands[number] = self._commands[number] = kept
        self._touch(thread)
        self._sent.tell(_ANY)
        return number

    async def load_commands(self, thread_id: str) -> Sequence[ThreadCommand]:
        thread = self._threads.get(thread_id)
        return list(thread.commands.values()) if thread else []

    async def next_commands(self, after: int) -> Sequence[ThreadCommand]:
        while True:
            found = [command for number, command in self._commands.items() if number > after]
            if found:
                return found
            await self._sent.wait(_ANY)
