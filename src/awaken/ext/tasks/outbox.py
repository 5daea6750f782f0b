"""Sending the messages in the outboxes of threads, after the commit that wrote them.

`MessageDispatcher` sends those of a live run, `Outboxes` those of runs that have ended or wait.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from awaken.core.aio.cancel import wait_first
from awaken.core.lifecycle import RunStatus
from awaken.core.registry import ExecutionResolver
from awaken.core.state.command import Command
from awaken.core.state.snapshot import Snapshot
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.threads import ThreadContext
from awaken.core.task import (
    AMBIENT_MESSAGE_SINK,
    DurableMessageSink,
    TaskHost,
    TaskJournal,
    TaskMessageError,
)
from awaken.errors import (
    StaleFence,
    StateError,
    StoreError,
    StoreUnavailable,
    ThreadOwned,
    VersionConflict,
)
from awaken.ext.tasks.manager import BackgroundTaskManager
from awaken.ext.tasks.state import (
    FAILED_MESSAGES,
    OUTBOX,
    AddFailedMessage,
    DurableRoute,
    Enqueue,
    FailedMessage,
    LiveInboxRoute,
    OutboxEntry,
    RemoveMessage,
)
from awaken.ext.tasks.task import describe
from awaken.plugin.context import PhaseContext

MOST_ATTEMPTS = 5
FIRST_PAUSE = 1.0
LONGEST_DELIVERY = 30.0
NO_TRANSPORT = "no durable transport configured"

log = logging.getLogger("awaken.background")


class MessageDispatcher:
    """Sends the messages in a run's outbox: at the end of each step, and some time after a failure.

    A message is sent at least once, always under the same id: if its removal from the outbox was
    not committed, it is sent again.
    """

    def __init__(
        self, manager: BackgroundTaskManager, sink: DurableMessageSink | None = None
    ) -> None:
        self._manager = manager
        self._sink = sink
        # Outcomes that the state does not show yet: a hook may be called twice.
        self._outcomes: list[tuple[OutboxEntry, Command]] = []

    def has_work(self, snapshot: Snapshot) -> bool:
        outbox = snapshot.get(OUTBOX)
        return outbox is not None and bool(outbox.pending)

    async def dispatch(self, ctx: PhaseContext) -> Command | None:
        """Try to deliver every message in the outbox. Returns the resulting state updates."""
        outbox = ctx.read(OUTBOX)
        command, handles, known = Command(), self._manager.handles, self._outcomes
        self._outcomes = []
        for entry in outbox.pending if outbox is not None else ():
            if entry.id in handles.sending:
                continue
            outcome = next((done for tried, done in known if tried is entry), None)
            if outcome is None:
                retry = handles.retries.pop(entry.id, None)
                if retry is not None:
                    retry.cancel()  # it is sent now instead
                outcome = await self._attempt(entry)
            self._outcomes.append((entry, outcome))
            command.extend(outcome)
        return command or None

    async def send_remaining(self, entries: Iterable[OutboxEntry]) -> Command:
        """Try once to deliver the messages that an ended run has left, except those that this
        process already retries. The caller decides when to try again."""
        command, handles = Command(), self._manager.handles
        for entry in entries:
            if entry.id in handles.sending or entry.id in handles.retries:
                continue
            handles.sending.add(entry.id)
            try:
                command.extend(await self._attempt(entry))
            finally:
                handles.sending.discard(entry.id)
            retry = handles.retries.pop(entry.id, None)
            if retry is not None:
                retry.cancel()
        return command

    async def _attempt(self, entry: OutboxEntry) -> Command:
        """Try to deliver a message once."""
        gone = Command().update(OUTBOX, RemoveMessage(id=entry.id))
        route = entry.route
        if isinstance(route, LiveInboxRoute):
            return await self._write_to_task(entry, route, gone)
        if entry.id in self._manager.handles.delivered:
            return gone
        sink = self._sink if self._sink is not None else AMBIENT_MESSAGE_SINK.get()
        if sink is None:
            return gone.extend(_add_failed_message(route, NO_TRANSPORT))
        try:
            await self._deliver(sink, route)
        except Exception as error:
            return self._after_failure(entry, error, gone)
        self._manager.handles.delivered.put(entry.id, None)
        return gone

    async def _write_to_task(
        self, entry: OutboxEntry, route: LiveInboxRoute, gone: Command
    ) -> Command:
        try:
            await self._manager.write_to_task(
                route.task_id,
                route.owner_thread_id,
                route.sender_agent_id,
                route.message,
                message_id=entry.id,
            )
        except TaskMessageError as error:
            log.warning("a message to task %s was dropped: %s", route.task_id, error)
        except StoreError as error:
            return self._after_failure(entry, error, gone)
        return gone

    async def _deliver(self, sink: DurableMessageSink, route: DurableRoute) -> None:
        delivered = False

        async def deliver() -> None:
            nonlocal delivered
            await sink.deliver(route.request)
            delivered = True

        await wait_first(deliver(), self._manager.handles.clock.sleep(LONGEST_DELIVERY))
        if not delivered:
            raise TimeoutError(f"no answer within {LONGEST_DELIVERY:g} seconds")

    def _after_failure(self, entry: OutboxEntry, error: Exception, gone: Command) -> Command:
        attempts, route = entry.attempts + 1, entry.route
        log.warning("message %s was not delivered (attempt %d): %s", entry.id, attempts, error)
        # A message to a task is retried as long as the task runs; only one to a thread is
        # given up.
        if attempts >= MOST_ATTEMPTS and isinstance(route, DurableRoute):
            return gone.extend(_add_failed_message(route, str(error) or describe(error)))
        later = msgspec.structs.replace(entry, attempts=attempts)
        handles = self._manager.handles
        failed = f"message {entry.id} will not be sent again"
        handles.retries[entry.id] = handles.own(self._retry_later(later), failed)
        return Command().update(OUTBOX, Enqueue(entry=later))

    # -- between steps ------------------------------------------------------------------------

    async def _retry_later(self, entry: OutboxEntry) -> None:
        """Try once more after a while, also when the run is over by then.

        The outcome is written into the run's store. If the run is over, the next run finds the
        message in its outbox, and knows whether it was delivered.
        """
        handles = self._manager.handles
        await handles.clock.sleep(FIRST_PAUSE * 2 ** min(entry.attempts - 1, MOST_ATTEMPTS))
        del handles.retries[entry.id]
        store = self._manager.store
        outbox = store.read(OUTBOX) if store is not None else None
        if store is None or outbox is None or outbox.find(entry.id) != entry:
            return
        handles.sending.add(entry.id)
        try:
            command = await self._attempt(entry)
            store.commit(command.batch)
        except StateError:
            log.exception("the outcome of sending message %s could not be committed", entry.id)
        finally:
            handles.sending.discard(entry.id)


def _add_failed_message(route: DurableRoute, error: str) -> Command:
    failed = FailedMessage(request=route.request, error=error)
    return Command().update(FAILED_MESSAGES, AddFailedMessage(message=failed))


# -- threads without a running run ------------------------------------------------------------


class Outboxes:
    """Sends the messages of threads without a running run, with the dispatchers of their agents.

    Several processes may send the same message, or one may die before it records the result. The
    message's id stays the same, so the recipient takes it once.
    """

    def __init__(self, host: TaskHost, journal: TaskJournal) -> None:
        self._host, self._journal = host, journal
        self._store = host.store

    async def send(self, thread_ids: Iterable[str], resolver: ExecutionResolver) -> None:
        """Try once to send the unsent messages of those threads whose agents the resolver has.

        Raises:
            StoreUnavailable: the outboxes cannot be read or updated now.
        """
        for thread_id in thread_ids:
            try:
                await self._send(thread_id, resolver)
            except StoreUnavailable:
                raise
            except Exception:
                log.exception(
                    "the messages in the outbox of thread %s could not be sent", thread_id
                )

    async def _send(self, thread_id: str, resolver: ExecutionResolver) -> None:
        context = await self._store.load_context(thread_id, tail=0)
        run = context.open_run if context is not None else None
        if context is None or run is None or run.agent_id not in resolver.agent_ids():
            return
        if run.status is RunStatus.RUNNING:
            return  # its owner, or the process that recovers it, sends them
        env = resolver.resolve(run.agent_id).env
        dispatcher = env.services.get(MessageDispatcher)
        manager = env.services.get(BackgroundTaskManager)
        if not isinstance(dispatcher, MessageDispatcher) or not isinstance(
            manager, BackgroundTaskManager
        ):
            return
        state = StateStore(env.keys)
        state.restore_thread_scoped(context.thread_state, UnknownKeyPolicy.SKIP)
        manager.set_store(state)
        manager.set_journal(manager.own_journal or self._journal)
        outbox = state.read(OUTBOX)
        command = await dispatcher.send_remaining(outbox.pending if outbox is not None else ())
        if command:
            state.commit(command.batch)
            await self._commit_outbox(context, state)

    async def _commit_outbox(self, context: ThreadContext, state: StateStore) -> None:
        """Commit which messages were sent, unless the thread has an owner by now: a live run
        updates its outbox itself."""
        thread, now = context.thread, self._host.clock.now_ms()
        _, changed = state.take_unsaved()
        commit = ThreadCommit(
            thread_id=thread.id,
            expected_length=thread.message_count,
            thread_state=changed,
            at_ms=now,
        )
        try:
            await self._store.commit(commit)
        except VersionConflict:
            return
        except StaleFence:
            try:
                # The last owner may have died. If so, this releases the thread, and a later call
                # can commit.
                await self._host.release(await self._host.claim(thread.id))
            except ThreadOwned:
                return
