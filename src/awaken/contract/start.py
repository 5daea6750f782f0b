"""A run about to start: what it may use, how it is steered, what came before, what is new.

The runtime makes these values once for a run, and the live run holds them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from awaken.budget.account import Account
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.contract.backend import BackendControl, DurableDelegates
from awaken.contract.commands import ThreadCommand
from awaken.contract.commits import CallEntry, Fence, ThreadCommit
from awaken.contract.profile import ProfileStore
from awaken.contract.registry import AgentResolver
from awaken.contract.stream_log import StreamLogEntry
from awaken.control.cancel import CancellationToken
from awaken.control.inbox import InboxSender
from awaken.domain.event import AgentEvent
from awaken.domain.message import Message
from awaken.domain.run import PersistedState, RunRecord, RunRequestSnapshot
from awaken.domain.ticket import Ticket
from awaken.ids import UUID7, Ids


class RunServices(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a run may use besides its agent."""

    resolver: AgentResolver
    profiles: ProfileStore | None = None
    delegates: DurableDelegates | None = None
    clock: Clock = SYSTEM_CLOCK
    ids: Ids = UUID7


class RunControls(BackendControl, kw_only=True, gc=False):
    """How a run is steered and limited, beyond what every backend is told.

    When `leave` is cancelled, the run stops at the end of its step, for another process to carry
    on. `look` delivers commands that the store has and that have not arrived. `owner_inbox` is the
    writing end of the run's inbox. `budget` is the run's account, `depth` the number of agents
    above it. A run elsewhere that `asks_itself` puts its own questions; it was `denied` more budget
    if an approver said why.
    """

    leave: CancellationToken | None = None
    look: Callable[[], Awaitable[None]] | None = None
    owner_inbox: InboxSender | None = None
    budget: Account | None = None
    depth: int = 0
    asks_itself: bool = False
    denied: str | None = None


class ThreadContextSnapshot(msgspec.Struct, kw_only=True, gc=False):
    """What came before: the thread as the runtime has read it, so that a run need not.

    `log` is the end of a raw log of `log_length` messages. `previous` is the run's own record if it
    continues, `last_turn` its last message with calls, `calls` what the ledger has of them, and
    `stream` what is stored of the answer that was under way. `fence` is the claim on the thread.
    """

    log: Sequence[Message] = ()
    log_length: int = 0
    previous: RunRecord | None = None
    last_turn: Message | None = None
    calls: Sequence[CallEntry] = ()
    stream: Sequence[StreamLogEntry] = ()
    fence: Fence | None = None


class FirstCommit(msgspec.Struct, kw_only=True, gc=False):
    """What is new with a run: its first commit writes all of it.

    `messages` go to the end of the log, `events` behind the run's start. `acks` are the commands
    that have been read, `request` is for the run's record, `state_seed` what its state begins with.
    """

    messages: Sequence[Message] = ()
    acks: Sequence[int] = ()
    events: Sequence[AgentEvent] = ()
    tickets: Sequence[Ticket] = ()
    sends: Sequence[ThreadCommand] = ()
    request: RunRequestSnapshot | None = None
    state_seed: PersistedState | None = None


class PreparedRun(msgspec.Struct, kw_only=True, gc=False):
    """A run about to start, besides its request.

    `unkept` receives the commits that are still to be made, if the store is away when the run
    breaks off.
    """

    services: RunServices
    controls: RunControls
    thread: ThreadContextSnapshot
    first: FirstCommit
    unkept: list[ThreadCommit] = msgspec.field(default_factory=list)
