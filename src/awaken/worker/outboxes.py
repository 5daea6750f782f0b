"""Sending the messages that ended or paused runs have left in their outboxes."""

from __future__ import annotations

import logging

from awaken.clock import Clock
from awaken.core.lifecycle import RunStatus
from awaken.core.registry import ExecutionResolver
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadContext
from awaken.core.task import AMBIENT_MESSAGE_SINK, DurableMessageSink, TaskJournal
from awaken.errors import StaleFence, StoreUnavailable, ThreadOwned, VersionConflict
from awaken.ext import tasks as background
from awaken.ext.tasks.state import OUTBOX
from awaken.worker.claims import Claims

log = logging.getLogger("awaken.runtime")


class Outboxes:
    """Sends the messages of threads without a running run, with the dispatchers of their agents.

    Several processes may send the same message, or one may die before it records the result. The
    message's id stays the same, so the recipient takes it once.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        sink: DurableMessageSink,
        journal: TaskJournal,
        claims: Claims,
    ) -> None:
        self._store = store
        self._clock = clock
        self._sink = sink
        self._journal = journal
        self._claims = claims

    async def send_all(self, resolver: ExecutionResolver) -> None:
        """Try once to send the unsent messages of the resolver's agents.

        Raises:
            StoreUnavailable: the outboxes cannot be read or updated now.
        """
        AMBIENT_MESSAGE_SINK.set(self._sink)
        for thread_id in await self._store.list_outboxes():
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
        dispatcher = env.services.get(background.MessageDispatcher)
        manager = env.services.get(background.BackgroundTaskManager)
        if not isinstance(dispatcher, background.MessageDispatcher) or not isinstance(
            manager, background.BackgroundTaskManager
        ):
            return
        state = StateStore(env.keys)
        state.restore_thread_scoped(context.thread_state, UnknownKeyPolicy.SKIP)
        manager.set_store(state)
        manager.set_journal(manager.own_journal or self._journal)
        outbox = state.read(OUTBOX)
        command = await dispatcher.send_left(outbox.pending if outbox is not None else ())
        if command:
            state.commit(command.batch)
            await self._note(context, state)

    async def _note(self, context: ThreadContext, state: StateStore) -> None:
        """Commit which messages were sent, unless the thread has an owner by now: a live run
        updates its outbox itself."""
        thread, now = context.thread, self._clock.now_ms()
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
                await self._claims.release(await self._claims.claim(thread.id))
            except ThreadOwned:
                return
