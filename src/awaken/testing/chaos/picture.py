"""What a store holds of a thread at one instant."""

from __future__ import annotations

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.contract.commits import CallEntry, CallPhase
from awaken.contract.store import Store
from awaken.contract.threads import RunQuery, TicketQuery
from awaken.domain.event import RunEvent
from awaken.domain.message import Message
from awaken.domain.run import PersistedState, RunRecord
from awaken.domain.ticket import Ticket
from awaken.domain.value import Value


class Picture(Value, frozen=True, kw_only=True):
    """Everything durable about a thread; `interrupted` are runs somebody should take up."""

    thread_id: str = ""
    messages: tuple[Message, ...] = ()
    events: tuple[RunEvent, ...] = ()
    calls: tuple[CallEntry, ...] = ()
    runs: tuple[RunRecord, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    state: PersistedState | None = None
    owner: str | None = None
    interrupted: tuple[str, ...] = ()

    def phase_of(self, key: str) -> CallPhase | None:
        return next((call.phase for call in self.calls if call.key == key), None)

    def open_calls(self) -> set[str]:
        """The keys of calls that may have started and have no outcome."""
        return {call.key for call in self.calls if call.phase is CallPhase.INTENT}


async def picture_of(store: Store, thread_id: str, *, clock: Clock = SYSTEM_CLOCK) -> Picture:
    """Read all of a thread. Meant for threads of a test's size."""
    thread = await store.load_thread(thread_id)
    if thread is None:
        return Picture(thread_id=thread_id)
    runs = (await store.list_runs(RunQuery(thread_id=thread_id))).items
    calls: list[CallEntry] = []
    for run in reversed(runs):
        calls.extend(await store.load_calls(run.run_id))
    interrupted = await store.list_interrupted(now_ms=clock.now_ms())
    return Picture(
        thread_id=thread_id,
        messages=tuple(await store.load_messages(thread_id)),
        events=tuple(await store.load_events(thread_id)),
        calls=tuple(calls),
        runs=runs,
        tickets=(await store.list_tickets(TicketQuery(thread_id=thread_id))).items,
        state=await store.load_thread_state(thread_id),
        owner=thread.owner,
        interrupted=tuple(run.run_id for run in interrupted),
    )
