"""What a program can do to runs that are under way, and to runs that have no owner."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from awaken.core.defaults import CANCEL_GRACE
from awaken.core.identity import Principal, id_of
from awaken.core.message import Message, as_messages
from awaken.core.storable import parse_argument
from awaken.runtime import lazy_engine as engine
from awaken.runtime.output import OutputShape
from awaken.runtime.queries import StoreQueries
from awaken.runtime.result import RecoveredRun, RunResult
from awaken.runtime.run_arguments import (
    AnswersByTicket,
    Input,
    check_seconds,
    decisions_of,
    parse_id,
    parse_principal,
)

if TYPE_CHECKING:
    from awaken.core.run import CancelReceipt
    from awaken.worker.recovery import Recovery, ResumedRun
    from awaken.worker.worker import Worker


class Control(StoreQueries):
    """The methods of a runtime that act on runs by their ids."""

    _engine: Worker
    _recover: bool
    _recovery: Recovery
    _shapes: dict[str, OutputShape]

    async def recover(self) -> list[RecoveredRun]:
        """Resume open runs of these agents that no process owns.

        These are runs whose process has ended, and runs that were answered or cancelled while no
        process ran them. Each continues from its last commit, in the background: no question is
        asked twice, and no finished call is run again. Await the returned runs for their results.
        This also runs agents that have unread messages, and sends messages that runs could not
        deliver before they ended.
        """
        self._engine.one_loop.bind()
        return self._as_recovered(await self._recovery.recover())

    async def look_around(self) -> None:
        """Resume open runs of these agents that no process owns, at once. A runtime with `recover`
        does so every five seconds by itself."""
        if self._recover and not self._engine.is_stopping:
            await self._recovery.resume()

    def _as_recovered(self, resumed: Iterable[ResumedRun]) -> list[RecoveredRun]:
        return [RecoveredRun(run, self._shapes) for run in resumed]

    def leave_to_caller(self, thread: str | None = None) -> None:
        """Do not resume the run of a thread (without `thread`: any run) when its background tasks
        report to it: the caller will. A runtime with `recover` still resumes such runs."""
        parse_id("thread", thread, str | None)
        self._recovery.exclude_thread(thread)

    # -- by id --------------------------------------------------------------------------------

    async def cancel(
        self,
        id: str,
        *,
        deadline: float = CANCEL_GRACE,
        principal: Principal | None = None,
    ) -> CancelReceipt:
        """Cancel a run by its run or thread id, with every delegate and task it has started. The
        run may be waiting, or live in another process.

        The request is stored first, so it holds even if this process ends. The receipt comes within
        `deadline` seconds. It says for each run, task and call whether it was stopped, had
        finished, or whether that is unknown. The receipt is false if there was no open run. The
        records of the runs keep who cancelled them, if a `principal` is given.
        """
        parse_id("id", id)
        parse_principal(principal)
        check_seconds("deadline", deadline)
        self._engine.one_loop.bind()
        return await engine.cancel_with_receipt(self._engine, id, deadline, id_of(principal))

    async def decide(
        self,
        id: str,
        answers: AnswersByTicket,
        *,
        by: str | None = None,
        principal: Principal | None = None,
    ) -> bool:
        """Answer tickets of a run, all or none: `{ticket: True}`; a key may be a ticket or its key.

        The answers are stored first. A run that is live, here or in another process, goes on with
        them. A run without an owner is resumed here, in the background, if this runtime has its
        agent. Returns whether the run goes on now; otherwise it does when a runtime recovers it.
        If a `principal` is given, the answers count as the principal's, even if they or `by` name
        another approver.

        Raises:
            InvalidResume: there is no such run, or an answer fits no open ticket; no answer was
                stored.
            ArgumentsRefused: a tool refuses edited arguments; no answer was stored.
        """
        parse_id("id", id)
        parse_principal(principal)
        self._engine.one_loop.bind()
        decisions = decisions_of(answers, id_of(principal) or by)
        place = await engine.decide(self._engine, id, decisions)
        if place.owner is not None:
            return True
        return self._recover and await self._recovery.resume_thread(place.thread_id)

    async def send(
        self,
        id: str,
        input: Input,
        *,
        principal: Principal | None = None,
    ) -> bool:
        """Send messages to a live run, here or in another process, by its run or thread id.

        The model reads them at its next step; messages that come too late for this run are read by
        the thread's next one. Returns `False` if no process runs the thread. The messages keep who
        sent them, if a `principal` is given.
        """
        parse_id("id", id)
        parse_principal(principal)
        self._engine.one_loop.bind()
        messages = parse_argument("input", as_messages(input), tuple[Message, ...])
        signed = [message.sent_by(id_of(principal)) for message in messages]
        return await engine.send(self._engine, id, signed)

    async def wait(self, id: str, *, timeout: float | None = None) -> RunResult[Any]:
        """Wait for a run to end, in whichever process it is. A thread id means the thread's open
        run, or else its latest.

        A run that waits for its background tasks is waited for, too. A run that needs an answer is
        returned suspended, with its tickets. An error of the run is not raised here: its
        `termination` says that it failed.

        Raises:
            NotFound: there is no such run.
            RunAbandoned: no process owns the run, and this runtime will not resume it.
            TimeoutError: the run did not end within `timeout` seconds.
        """
        parse_id("id", id)
        if timeout is not None:
            check_seconds("timeout", timeout)
        self._engine.one_loop.bind()
        async with asyncio.timeout(timeout):
            run = await engine.wait_for_end_or_question(
                self._engine, id, self._recovery.refusal_reason
            )
            return RunResult.read(run, self._shapes)
