"""Delegates as durable runs, each in its own thread below the thread of its parent run.

The run's id is derived from the key of the tool call that started it. When that call is executed
again, after a crash or with an answer, the same run is found and continued.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from awaken.backend.local import map_termination
from awaken.clock import Clock
from awaken.codec import Json, dumps_text, from_json
from awaken.core.aio.cancel import wait_first
from awaken.core.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendDelegateRunRequest,
    BackendLoopError,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    BackendStatusKind,
    ExecutionFailed,
)
from awaken.core.budget import Spending
from awaken.core.event import EventSink
from awaken.core.identity import RequestOrigin
from awaken.core.inbox import payload_messages
from awaken.core.lifecycle import SUSPENDED_END, RunStatus, Stopped
from awaken.core.message import Message
from awaken.core.run import AgentRunResult, PersistedState, RunRecord, WaitingReason
from awaken.core.state.run_keys import SPENDING
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.store.threads import TicketQuery, find_child
from awaken.core.suspension import ResumeAction, TicketStatus, ToolCallResume
from awaken.engine.suspension import EXPIRY_GRACE_MS, LOOK_AT_CLOCK_SECONDS
from awaken.errors import (
    AgentLoopError,
    AwakenError,
    DecisionRefused,
    InvalidResume,
    NotFound,
    RunLeft,
)
from awaken.worker.delegate_summary import DelegateSummary, EffectOf
from awaken.worker.live_runs import ActiveRuns
from awaken.worker.request import ParentContext, RunRequest, WhenBusy

log = logging.getLogger("awaken.runtime")


class RunFunction(Protocol):
    """Starts a run: `Worker.run`."""

    def __call__(
        self, request: RunRequest, sink: EventSink, parent_context: ParentContext
    ) -> Awaitable[AgentRunResult]: ...


class Delegates:
    """Runs delegates with `Worker.run`, like every other run."""

    def __init__(
        self,
        run: RunFunction,
        store: Store,
        clock: Clock,
        active: ActiveRuns,
        is_closed: Callable[[], bool],
        deliver: Callable[[str], Awaitable[None]],
        effect_of: EffectOf,
    ) -> None:
        self._run = run
        self._store = store
        self._clock = clock
        self._active = active
        self._is_closed = is_closed
        self._deliver = deliver
        self._summary = DelegateSummary(store, effect_of)

    async def run_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Start the delegate of `request.key`, continue it, or return its result if it has ended.

        Raises:
            ExecutionFailed: it could not be run.
            BackendLoopError: it failed.
            RunLeft: the runtime is closing; another process will continue it.
        """
        run_id = await find_child(self._store, request.parent.parent_thread_id or "", request.key)
        record = await self._store.load_run(run_id)
        if record is None and request.asker is not None:
            raise ExecutionFailed(f"delegate run '{run_id}' was deleted while it waited")
        if record is None:
            await self._start(request, run_id)
        elif record.status is RunStatus.WAITING:
            if not await self._answer(request, record):
                return await self._load_result(record)
        elif record.status is not RunStatus.DONE:
            await self._continue(request, run_id)
        record = await self._store.load_run(run_id)
        if record is None:
            raise ExecutionFailed(f"delegate run '{run_id}' was deleted while it ran")
        return await self._load_result(record)

    async def wait_for_answer(self, run_id: str) -> None:
        """Wait until a waiting delegate has a command, its question has expired, or it no longer
        waits."""
        seen = 0

        async def wait_changed() -> None:
            nonlocal seen
            seen = await self._store.wait_changed(run_id, seen)

        await wait_changed()
        while True:
            record = await self._store.load_run(run_id)
            if record is None or record.status is not RunStatus.WAITING:
                return
            if self._is_overdue(record) or await self._store.load_commands(run_id):
                return
            left = _time_left(record, self._clock.now_ms())
            expiry = () if left is None else (min(left, LOOK_AT_CLOCK_SECONDS),)
            await wait_first(wait_changed(), *map(self._clock.sleep, expiry))

    def _is_overdue(self, record: RunRecord) -> bool:
        left = _time_left(record, self._clock.now_ms())
        return left is not None and left <= 0

    async def send_event(self, thread_id: str, key: str, event: Json) -> None:
        """Send an event to the delegate of the call `key` of a thread, once its run has started.
        The delegate's model reads it at the next step, in whichever process that runs."""
        child = await find_child(self._store, thread_id, key)
        command = ThreadCommand(
            thread_id=child,
            kind=CommandKind.MESSAGES,
            messages=tuple(payload_messages(event)),
            at_ms=self._clock.now_ms(),
        )
        seen = 0
        while True:
            try:
                await self._store.send(command)
                return await self._deliver(child)
            except NotFound:
                seen = await self._store.wait_changed(child, seen)

    async def summarize_delegate(self, thread_id: str, key: str) -> str | None:
        """A summary of the actions of the delegate of the call `key` of a thread, and of the runs
        below it. Returns `None` if none of their calls has ended or may have taken effect."""
        return await self._summary.summarize(await find_child(self._store, thread_id, key))

    async def _start(self, request: BackendDelegateRunRequest, run_id: str) -> None:
        parent = request.parent
        await self._drive(
            request,
            RunRequest(
                thread_id=run_id,
                run_id_hint=run_id,
                agent_id=request.agent_id,
                messages=tuple(request.messages),
                wait_for_decisions=False,
                when_busy=WhenBusy.QUEUE,
                origin=RequestOrigin.INTERNAL,
                parent_run_id=parent.parent_run_id,
                parent_thread_id=parent.parent_thread_id,
                parent_tool_call_id=parent.parent_tool_call_id,
            ),
        )

    async def _continue(
        self, request: BackendDelegateRunRequest, run_id: str, *messages: Message
    ) -> None:
        await self._drive(
            request,
            RunRequest(
                thread_id=run_id,
                continue_run_id=run_id,
                messages=messages,
                wait_for_decisions=False,
                when_busy=WhenBusy.QUEUE,
            ),
        )

    async def _drive(self, request: BackendDelegateRunRequest, run_request: RunRequest) -> None:
        """Run until the delegate ends or pauses. A failure that its record already has is not
        raised.

        Raises:
            BackendLoopError: the run failed, and its record does not say so.
            RunLeft: the runtime is closing; another process will continue the run.
            ExecutionFailed: the run could not be started or continued.
        """
        parent = self._active.find_by_run(request.parent.parent_run_id or "")
        if parent is not None:
            requester = parent.requester.fields()
            run_request = msgspec.structs.replace(
                run_request, left_on_close=parent.left_on_close, **requester
            )
        parent_context = ParentContext(
            budget=request.budget, depth=request.depth, deps=request.deps
        )
        try:
            await self._run(run_request, request.sink, parent_context)
        except RunLeft:
            raise
        except AgentLoopError as error:
            record = await self._store.load_run(run_request.thread_id)
            if record is None or record.status is not RunStatus.DONE:
                raise BackendLoopError(error) from error
        except AwakenError as error:
            token = request.control.cancellation_token
            if self._is_closed() and (token is None or not token.is_cancelled()):
                raise RunLeft(run_request.thread_id) from error
            raise ExecutionFailed(str(error)) from error

    # -- answers ------------------------------------------------------------------------------

    async def check_answers(self, thread_id: str) -> None:
        """Check that the thread's open run may be answered directly. A delegate in a background
        task may; one of a run may not.

        Raises:
            InvalidResume: the run is a delegate. Its parent run asks its questions, so the answer
                belongs there; or the parent has ended, and the delegate is cancelled here.
        """
        thread = await self._store.load_thread(thread_id)
        if thread is None or thread.open_run_id is None:
            return
        run = await self._store.load_run(thread.open_run_id)
        if run is None or not run.is_delegated:
            return
        parent = await parent_of(self._store, run)
        if parent is None:
            await self._store.cancel_tree(thread_id, at_ms=self._clock.now_ms())
            raise orphan_error(run)
        if not parent.is_task:
            raise InvalidResume(
                f"run '{thread.open_run_id}' works for run '{parent.run_id}', which asks for it: "
                f"answer in thread '{parent.thread_id}', or by decide"
            )

    async def _answer(self, request: BackendDelegateRunRequest, record: RunRecord) -> bool:
        """Continue a waiting run with the request's answer, or with its waiting commands or an
        expired question. Returns whether the run had any of these to continue with."""
        resume, asker = request.resume, request.asker
        commands = await self._store.load_commands(record.thread_id)
        if resume is None or asker is None:
            if not commands and not self._is_overdue(record):
                return False
        elif asker.ticket is None:
            message = await self._build_answer(record, request.key, resume)
            if message is None:
                return False
            await self._continue(request, record.run_id, message)
            return True
        else:
            answer = msgspec.structs.replace(
                resume, decision_id=f"{request.key}>{asker.ticket}", digest=None
            )
            try:
                sent = await self._store.decide(
                    record.thread_id, [(asker.ticket, answer)], at_ms=self._clock.now_ms()
                )
                if sent is None and not commands:
                    return False
            except DecisionRefused as error:
                log.warning("an answer to run %s came too late: %s", record.run_id, error)
        await self._continue(request, record.run_id)
        return True

    async def _build_answer(
        self, record: RunRecord, key: str, resume: ToolCallResume
    ) -> Message | None:
        """The answer as a user message. Returns `None` if the run's log already has it."""
        # Each question has its own digest and is answered once, so this id is unique.
        id = f"{key}>{resume.digest}"
        log = await self._store.load_messages(record.thread_id, hidden=True)
        if any(message.id == id for message in log):
            return None
        return Message.user(answer_text(resume), id=id)

    # -- results ------------------------------------------------------------------------------

    async def _load_result(self, record: RunRecord) -> BackendRunResult:
        """The delegate's status and output, from its run record."""
        termination = record.termination_reason or SUSPENDED_END
        state = record.state.extensions if record.state is not None else {}
        output = BackendRunOutput.from_text(record.final_output)
        if BACKEND_OUTPUT_STATE_KEY in state:
            output = from_json(state[BACKEND_OUTPUT_STATE_KEY], BackendRunOutput)
        status = _status(record, await self._question(record))
        has_failed = status.kind is not BackendStatusKind.COMPLETED and not status.is_waiting
        return BackendRunResult(
            agent_id=record.agent_id,
            status=status,
            termination=termination,
            response=record.final_output,
            output=output,
            steps=record.steps,
            run_id=record.run_id,
            tickets=record.waiting.tickets if record.waiting is not None else (),
            spending=spending_in(record.state) if record.state is not None else None,
            done=await self._summary.summarize(record.run_id) if has_failed else None,
        )

    async def _question(self, record: RunRecord) -> str | None:
        """The text of a waiting run's first question; `None` if it has no open ticket."""
        if record.waiting is None or not record.waiting.tickets:
            return None
        first = record.waiting.tickets[0].key
        query = TicketQuery(run_id=record.run_id, status=TicketStatus.OPEN)
        while True:
            page = await self._store.list_tickets(query)
            for ticket in page:
                if ticket.key == first:
                    return ticket.message
            if page.cursor is None:
                return None
            query = msgspec.structs.replace(query, cursor=page.cursor)


async def parent_of(store: Store, run: RunRecord | None) -> RunRecord | None:
    """A delegate's parent run, which continues it. Returns `None` if `run` is no delegate, or if
    its parent has ended."""
    if run is None or not run.is_delegated:
        return None
    parent = await store.load_run(run.parent_run_id or "")
    return parent if parent is not None and parent.status is not RunStatus.DONE else None


def orphan_error(run: RunRecord) -> InvalidResume:
    """The error for answering a delegate whose parent run has ended."""
    return InvalidResume(
        f"run '{run.run_id}' works for run '{run.parent_run_id}', which has ended: its "
        "result is not needed any more, and it is cancelled"
    )


def _time_left(record: RunRecord, now_ms: int) -> float | None:
    """The seconds until the first question of a waiting run expires; `None` if none does."""
    tickets = record.waiting.tickets if record.waiting is not None else ()
    times = [ticket.expires_at for ticket in tickets if ticket.expires_at is not None]
    return (min(times) + EXPIRY_GRACE_MS - now_ms) / 1000 if times else None


def spending_in(state: PersistedState) -> Spending:
    """The spending recorded in a run's state."""
    kept = state.extensions.get(SPENDING.name)
    return Spending() if kept is None else from_json(kept, Spending)


def _status(record: RunRecord, question: str | None) -> BackendRunStatus:
    if record.status is RunStatus.WAITING and record.waiting is not None:
        waiting = record.waiting
        message = record.final_output or waiting.message
        if waiting.reason is WaitingReason.USER_INPUT:
            return BackendRunStatus.waiting_input(message)
        if waiting.message == "auth_required":
            return BackendRunStatus.waiting_auth(message)
        return BackendRunStatus.suspended(question)
    termination = record.termination_reason or SUSPENDED_END
    if isinstance(termination, Stopped) and termination.value.code == "timeout":
        return BackendRunStatus.timeout()
    return map_termination(termination)


def answer_text(resume: ToolCallResume) -> str:
    """A decision as text that another agent can read."""
    if resume.action is not ResumeAction.RESUME:
        return f"No: {resume.reason}" if resume.reason else "No."
    if isinstance(resume.result, str):
        return resume.result
    if resume.result is not None:
        return dumps_text(resume.result)
    return resume.reason or "Yes."
