"""Operations on a run by its id: find, cancel, answer, send messages, resume. The run may be live
in this process, live in another, or waiting in the store."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from awaken.core.event import EventSink
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import AgentRunResult, RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.store.threads import Page, RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import Decision, TicketStatus, ToolCallResume
from awaken.core.task import StoredTask
from awaken.core.thread import Thread
from awaken.engine.suspension import EXPIRY_GRACE_MS
from awaken.errors import (
    DecisionRefused,
    InvalidResume,
    NotFound,
    StoreError,
    StoreUnavailable,
    ThreadAlreadyRunning,
    ThreadOwned,
    UnreadableRecord,
)
from awaken.worker.delegates import orphan_error, parent_of
from awaken.worker.edited_arguments import check_edits
from awaken.worker.live_runs import ActiveRun
from awaken.worker.orphans import end_all, end_without_agent, has_agent, is_elsewhere, recover_run
from awaken.worker.worker import Worker

_MAX_RESULTS = 1000
log = logging.getLogger("awaken.runtime")


class RunLocation(msgspec.Struct, frozen=True, gc=False):
    """A thread, its open run (or the run that was asked for), and the thread's owner, if any."""

    thread_id: str
    run: RunRecord | None
    owner: str | None


async def find(runtime: Worker, id: str) -> RunLocation | None:
    """Find the run of a run or thread id. Returns `None` if the id is unknown, or if it names a
    thread and also a run of another thread. If a thread cannot be read, its run may be missing.

    Raises:
        UnreadableRecord: the id is that of a run, which cannot be read.
    """
    try:
        return await _find(runtime, id)
    except UnreadableRecord:
        thread = await runtime.store.load_thread(id)
        if thread is None:
            raise
        runs: Page[RunRecord] = Page(items=())
        if thread.open_run_id is not None:
            runs = await runtime.store.list_runs(RunQuery(run_id=thread.open_run_id))
        return RunLocation(thread.id, next(iter(runs), None), thread.owner)


async def _find(runtime: Worker, id: str) -> RunLocation | None:
    context = await runtime.store.load_context(id, tail=0)
    record = await runtime.store.load_run(id)
    if context is not None and record is not None and record.thread_id != id:
        return None
    if context is None:
        if record is None:
            return None
        context = await runtime.store.load_context(record.thread_id, tail=0)
        if context is None:
            return None
        if context.open_run is None or context.open_run.run_id != id:
            return RunLocation(record.thread_id, record, None)
    run = context.open_run
    return RunLocation(context.thread.id, run, context.thread.owner)


def _is_open(run: RunRecord | None) -> bool:
    return run is not None and run.status is not RunStatus.DONE


async def cancel(runtime: Worker, id: str) -> bool:
    """Cancel a run by its run or thread id, and everything it started. Runs without an owner are
    ended here. Returns false if none of them is open."""
    targets = await request_cancel(runtime, id)
    await finish_cancelled(runtime, targets)
    return bool(targets)


class CancelTargets(msgspec.Struct, frozen=True):
    """The run with the given id, its slot if it is live here, and the threads of all runs that the
    cancel was sent to."""

    run: RunRecord | None
    live: ActiveRun | None
    threads: Sequence[Thread]

    def __bool__(self) -> bool:
        return self.live is not None or bool(self.threads)


async def request_cancel(runtime: Worker, id: str, by: str | None = None) -> CancelTargets:
    """Send a cancel to a run, by its run or thread id, and to everything it started. A run that has
    ended may have left delegates or tasks open. The result is false if none of them is open. `by`
    is the id of the principal that cancels.

    The store takes all cancels at once, so they hold even if this process dies afterwards.
    """
    live = runtime.active.find(id)
    location = await find(runtime, live.thread_id if live is not None else id)
    run = location.run if location is not None else None
    threads: Sequence[Thread] = ()
    if run is not None and run.status is RunStatus.CREATED:
        return CancelTargets(run, live, ())  # a submission; its thread's open run is another one
    if location is not None and not await _has_progressed(runtime, id, run):
        now = runtime.clock.now_ms()
        threads = await runtime.store.cancel_tree(location.thread_id, at_ms=now, by=by)
    # A run without a commit is not in the store, only in this process.
    runtime.cancel(id)
    return CancelTargets(run, live, threads)


async def _has_progressed(runtime: Worker, id: str, run: RunRecord | None) -> bool:
    """Whether `id` names a run that has ended while its thread has another run open."""
    if run is None or _is_open(run) or id != run.run_id:
        return False
    thread = await runtime.store.load_thread(run.thread_id)
    return thread is not None and thread.open_run_id is not None


async def finish_cancelled(runtime: Worker, targets: CancelTargets) -> None:
    """End the cancelled runs that have no owner."""
    await end_all(runtime, targets.threads)
    if _is_open(targets.run):
        await _deny_questions(runtime, targets.run)


async def _deny_questions(runtime: Worker, run: RunRecord | None) -> None:
    """Deny the questions that the parent run asks for a cancelled delegate, so that the parent
    goes on."""
    parent = await parent_of(runtime.store, run)
    if run is None or parent is None:
        return
    query = TicketQuery(run_id=parent.run_id, status=TicketStatus.OPEN, limit=_MAX_RESULTS)
    for ticket in await runtime.store.list_tickets(query):
        if ticket.asker is None or ticket.asker.run_id != run.run_id:
            continue
        no = ToolCallResume.deny(f"agent '{run.agent_id}' was cancelled")
        try:
            await decide(runtime, parent.run_id, [(ticket.key, no)])
        except InvalidResume as error:
            log.info("a question of run %s was answered meanwhile: %s", run.run_id, error)


async def descendants(store: Store, thread_id: str) -> list[Thread]:
    """All threads below a thread, at any depth."""
    found: list[Thread] = []
    query = ThreadQuery(ancestor_thread_id=thread_id, limit=_MAX_RESULTS)
    while True:
        page = await store.list_threads(query)
        found.extend(page)
        if page.cursor is None:
            return found
        query = msgspec.structs.replace(query, cursor=page.cursor)


async def send(runtime: Worker, id: str, messages: Sequence[Message]) -> bool:
    """Send messages to a run that has an owner; the model reads them at its next step.

    If the run ends before it reads them, the thread's next run does. Returns false if no process
    owns the thread.
    """
    if not messages:
        return False
    live = runtime.active.find(id)
    if live is not None and live.inbox is not None:
        return await runtime.send_messages(id, messages)
    location = await find(runtime, id)
    if location is None or location.owner is None or not _is_open(location.run):
        return False
    await runtime.write_to(location.thread_id, messages)
    return True


async def decide(runtime: Worker, id: str, decisions: Sequence[Decision]) -> RunLocation:
    """Answer tickets of a run, all or none, and tell the run's owner. Returns where the run is now.

    Raises:
        InvalidResume: there is no such run, or an answer fits no open ticket; nothing was changed.
            Or the run works for a run that has ended; then it is cancelled.
        ArgumentsRefused: a tool refuses edited arguments; nothing was changed.
    """
    live = runtime.active.find(id)
    thread_id = live.thread_id if live is not None else id
    location = await find(runtime, thread_id)
    if location is None:
        raise InvalidResume(f"no run or thread has the id '{id}', or more than one")
    asks_through = await parent_of(runtime.store, location.run)
    if location.run is not None and asks_through is not None and not asks_through.is_task:
        above = await _map_to_parent(runtime, location.run, asks_through, decisions)
        return await decide(runtime, asks_through.run_id, above)
    if location.run is not None and asks_through is None and _is_orphan(location.run):
        await cancel(runtime, location.thread_id)
        raise orphan_error(location.run)
    await check_edits(runtime, location.thread_id, decisions)
    try:
        await runtime.store.decide(location.thread_id, decisions, at_ms=runtime.clock.now_ms())
    except (DecisionRefused, NotFound) as error:
        raise InvalidResume(error) from error
    await runtime.deliver(location.thread_id)
    # Look the owner up again: one that owns the thread now reads the answers before it releases it.
    now = await find(runtime, thread_id) or location
    if asks_through is None or now.owner is not None:
        return now
    # The owner of the task that the run works in resumes it.
    task = await find(runtime, asks_through.run_id)
    return msgspec.structs.replace(now, owner=task.owner) if task is not None else now


def _is_orphan(run: RunRecord) -> bool:
    """Whether an open run is a delegate: only the run it works for could resume it."""
    return run.is_delegated and _is_open(run)


async def _map_to_parent(
    runtime: Worker, run: RunRecord, parent: RunRecord, decisions: Sequence[Decision]
) -> list[Decision]:
    """Translate answers to a delegate's tickets into answers to its parent's tickets for the same
    questions.

    Raises:
        InvalidResume: the parent has no ticket for the question, or an answer does not fit it.
    """
    asked = TicketQuery(run_id=run.run_id, status=TicketStatus.OPEN, limit=_MAX_RESULTS)
    mine = await runtime.store.list_tickets(asked)
    theirs = await runtime.store.list_tickets(msgspec.structs.replace(asked, run_id=parent.run_id))
    above: list[Decision] = []
    for target, decision in decisions:
        named = [ticket for ticket in mine if ticket.answers_to(target)]
        ticket = next(
            (one for one in named if one.key == target or one.digest == decision.digest),
            named[0] if named else None,
        )
        passed_on = next(
            (t for t in theirs if ticket and t.asker and t.asker.ticket == ticket.key), None
        )
        if ticket is None or passed_on is None:
            raise InvalidResume(
                f"'{target}' is no open question of run '{run.run_id}' that has reached run "
                f"'{parent.run_id}', which it works for"
            )
        if not ticket.is_bound(target, decision):
            raise InvalidResume(
                f"'{target}' may come again with another question: name the ticket by its key "
                f"{ticket.key!r}, or give the digest of the question that was seen"
            )
        if decision.digest not in (None, ticket.digest):
            raise InvalidResume(f"the answer to '{target}' was given to another question")
        digest = passed_on.digest if decision.digest is not None else None
        above.append((passed_on.key, msgspec.structs.replace(decision, digest=digest)))
    return above


async def list_recoverable(runtime: Worker) -> list[RunRecord]:
    """The runs and background tasks without an owner that this runtime should resume."""
    found: list[RunRecord] = []
    for record in await runtime.store.list_interrupted(now_ms=expiry_cutoff_ms(runtime)):
        try:
            if await should_recover(runtime, record):
                found.append(record)
        except StoreUnavailable:
            raise
        except Exception:
            # One unreadable record must not hide the others.
            log.exception("run %s cannot be read and is skipped", record.run_id)
    return found


def expiry_cutoff_ms(runtime: Worker) -> int:
    """The time before which a question's deadline counts as missed. It is a little before now,
    because an answer given in time may still be on its way."""
    return runtime.clock.now_ms() - EXPIRY_GRACE_MS


async def should_recover(runtime: Worker, record: RunRecord) -> bool:
    """Whether this runtime should resume a run, or task, that the store lists as interrupted.

    A delegate is resumed by its parent run while that is open. A run that only has to end does not
    need its agent, unless a backend runs it.
    """
    if runtime.active.find_by_thread(record.thread_id) is not None:
        return False
    if await _is_left_to_parent(runtime, record):
        return False
    if not _is_orphan(record) and await _has_only_messages(
        runtime, record, expiry_cutoff_ms(runtime)
    ):
        return False
    reason = _skip_reason(runtime, record)
    if reason is None:
        runtime.skipped_runs.pop(record.run_id, None)
        return True
    if not is_elsewhere(record) and await _must_end(runtime, record):
        return True
    if record.run_id not in runtime.skipped_runs:
        log.warning("run %s has no owner and is not resumed: %s", record.run_id, reason)
    runtime.skipped_runs[record.run_id] = reason
    return False


def _skip_reason(runtime: Worker, record: RunRecord) -> str | None:
    """Why this runtime cannot resume a run: it does not have its agent, or cannot make its
    dependencies. Returns `None` if it can."""
    agent_id = agent_of(record)
    if agent_id is None or agent_id not in runtime.registry.snapshot().agent_ids():
        return (
            f"this runtime does not have the agent {agent_id!r}; open one that has it, with "
            "recover=True, or cancel the run"
        )
    return runtime.deps.refusal_reason(agent_id, run_of(record))


async def _must_end(runtime: Worker, run: RunRecord) -> bool:
    """Whether a run without an owner was cancelled, or is a delegate whose parent has ended."""
    if run.is_delegated and await parent_of(runtime.store, run) is None:
        return True
    return await _is_cancelled(runtime, run)


async def _is_cancelled(runtime: Worker, run: RunRecord) -> bool:
    return any(
        command.kind is CommandKind.CANCEL and command.run_id in (None, run.run_id)
        for command in await runtime.store.load_commands(run.thread_id)
    )


def agent_of(record: RunRecord) -> str | None:
    """The id of the agent whose run, or task, a record describes."""
    return StoredTask.of(record).task.parent_context.agent_id if record.is_task else record.agent_id


def run_of(record: RunRecord) -> str:
    """The id of the run, or for a task that of the run that has started it."""
    return (record.parent_run_id or "") if record.is_task else record.run_id


async def _is_left_to_parent(runtime: Worker, run: RunRecord) -> bool:
    if await parent_of(runtime.store, run) is None:
        return False
    return not await _is_cancelled(runtime, run)


async def _has_only_messages(runtime: Worker, run: RunRecord, now_ms: int) -> bool:
    """Whether a run that waits for answers has only messages waiting. They do not resume it; it
    reads them once it is answered."""
    tickets = run.waiting.tickets if run.waiting is not None else ()
    if not tickets or any(t.expires_at is not None and t.expires_at <= now_ms for t in tickets):
        return False
    return all(
        command.kind in (CommandKind.MESSAGES, CommandKind.RUN)
        or command.run_id not in (None, run.run_id)
        for command in await runtime.store.load_commands(run.thread_id)
    )


async def recover_task(runtime: Worker, record: RunRecord) -> None:
    """Resume a background task that has no owner, or end it if it cannot be resumed."""
    try:
        await runtime.tasks.recover(record)
    except (ThreadAlreadyRunning, ThreadOwned):
        return  # another process has resumed it
    except StoreError:
        raise
    except Exception:
        # One unreadable record must not keep the caller from resuming the others.
        log.exception("task %s could not be resumed", record.run_id)


async def continue_run(
    runtime: Worker, run: RunRecord, sink: EventSink | None = None
) -> AgentRunResult:
    """Resume a run from its last commit, with the thread's last active agent. A cancelled run whose
    agent is not registered here is only ended.

    Raises:
        ThreadAlreadyRunning: another process has resumed it.
        AgentLoopError: it failed.
    """
    if run.is_delegated and not await _is_cancelled(runtime, run):
        # Its parent run is missing or has ended: no run waits for its answer.
        now = runtime.clock.now_ms()
        await runtime.store.send(ThreadCommand.cancel(run.thread_id, run.run_id, at_ms=now))
    if not has_agent(runtime, run) and not is_elsewhere(run) and await _is_cancelled(runtime, run):
        return await end_without_agent(runtime, run)
    return await recover_run(runtime, run, sink)
