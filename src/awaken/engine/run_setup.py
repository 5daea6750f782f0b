"""`RunSetup`: everything a run needs to start, of core types alone.

The worker makes it of an `Activation` when it has read the thread, and `LocalBackend` of a backend
request. The loop, and the code for remote runs, start from it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.account import Account
from awaken.core.aio.cancel import CancellationToken
from awaken.core.backend import BackendControl, DurableDelegates
from awaken.core.blobs import RunBlobs
from awaken.core.bus import NO_TOPIC, Topic
from awaken.core.deps import RunDeps
from awaken.core.event import AgentEvent, EventSink, RunEvent
from awaken.core.identity import RunIdentity
from awaken.core.inbox import InboxReceiver, InboxSender
from awaken.core.inference import InferenceOverride
from awaken.core.message import Message
from awaken.core.profile import ProfileStore
from awaken.core.registry import ExecutionResolver
from awaken.core.run import PersistedState, RunRecord, RunRequestSnapshot
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import (
    NEVER_LOST,
    CallEntry,
    Fence,
    Lease,
    StreamLogEntry,
    ThreadCommit,
)
from awaken.core.store.store import Store
from awaken.core.suspension import Ticket
from awaken.core.tool import ToolDescriptor
from awaken.ids import UUID7, Ids


class RunServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services that a run may use besides its agent.

    A run without a `store` is kept in memory only. With `keep_requests`, the requests to the run's
    models are committed with their answers. `deps` are the run's dependencies, if its agent has
    some.
    """

    resolver: ExecutionResolver
    store: Store | None = None
    profiles: ProfileStore | None = None
    delegates: DurableDelegates | None = None
    blobs: RunBlobs | None = None
    keep_requests: bool = True
    clock: Clock = SYSTEM_CLOCK
    ids: Ids = UUID7
    deps: RunDeps | None = None


def _nothing() -> None:
    """Do nothing."""


class RunControls(BackendControl, kw_only=True):
    """How a run is controlled and limited, beyond what every backend gets.

    When `leave` is cancelled, the run stops at the end of its step, and another process continues
    it. `look` reads the commands that wait in the store and delivers them to the run. `inbox` is
    the reading end of the run's inbox, `owner_inbox` the writing end. `budget` is the run's
    account, `depth` the number of agents above it.

    `lease` says whether this process may start an effect now. `give_up` leaves the run without a
    commit; `is_lost` says that this was done.

    The last two are for remote runs. A run that `asks_itself` opens the tickets of its own
    questions; for any other, the run it works for opens them. `denied` is the approver's reason if
    more budget was asked for and refused.
    """

    leave: CancellationToken | None = None
    look: Callable[[], Awaitable[None]] | None = None
    inbox: InboxReceiver | None = None
    owner_inbox: InboxSender | None = None
    budget: Account | None = None
    depth: int = 0
    lease: Lease = NEVER_LOST
    give_up: Callable[[], None] = _nothing
    is_lost: bool = False
    asks_itself: bool = False
    denied: str | None = None


NOT_IN_VIEW = Message.user("", id="")
"""Stands for a message that is out of view, where the position of the others counts."""


class ThreadContextSnapshot(msgspec.Struct, kw_only=True, gc=False):
    """The thread as the worker has read it, so that the run need not read it again.

    `log` is the end of the thread's log, which has `log_length` messages; in it, `NOT_IN_VIEW`
    stands for each message that is out of view. `event_count` is the number of the thread's durable
    events. The next five are for a run that goes on: `previous` is its record, `last_step` its last
    message with tool calls, `calls` are the ledger's entries of these calls, `stream` is the stream
    log of an unfinished answer, and `recent_events` are the last durable events, if the process
    that ran the run has died.
    `fence` is the claim on the thread.
    """

    log: Sequence[Message] = ()
    log_length: int = 0
    event_count: int = 0
    previous: RunRecord | None = None
    last_step: Message | None = None
    calls: Sequence[CallEntry] = ()
    stream: Sequence[StreamLogEntry] = ()
    recent_events: Sequence[RunEvent] = ()
    fence: Fence | None = None


class FirstCommit(msgspec.Struct, kw_only=True, gc=False):
    """What the first commit of a run writes.

    `messages` are appended to the log, `events` follow the run's start. `acks` are the ids of
    commands that were read, `tickets` are questions that it closes, `sends` are commands to the
    runs that asked them. `request` goes into the run's record, `state_seed` is the initial state of
    a delegate, or what a client wants in public state keys. `rewinds_to` is the position to which
    the thread is rewound, if it is.
    """

    messages: Sequence[Message] = ()
    acks: Sequence[int] = ()
    events: Sequence[AgentEvent] = ()
    tickets: Sequence[Ticket] = ()
    sends: Sequence[ThreadCommand] = ()
    request: RunRequestSnapshot | None = None
    state_seed: PersistedState | None = None
    rewinds_to: int | None = None

    @property
    def has_extras(self) -> bool:
        """Whether it writes commands, tickets or a rewind."""
        return bool(self.acks or self.tickets or self.sends) or self.rewinds_to is not None


class RunSetup(msgspec.Struct, kw_only=True):
    """Everything a run needs to start, besides its agent and its restored state.

    `messages` is the conversation for the model. `overrides` and `frontend_tools` are options of
    the request. `topic` is the thread's topic on the live bus. `pending_commits` receives the
    commits that the store did not take before the run failed.

    The garbage collector has to track this struct: the controls lead to the run's task.
    """

    identity: RunIdentity
    sink: EventSink
    services: RunServices
    controls: RunControls
    thread: ThreadContextSnapshot
    first_commit: FirstCommit
    messages: Sequence[Message] = ()
    overrides: InferenceOverride | None = None
    frontend_tools: Sequence[ToolDescriptor] = ()
    is_continuation: bool = False
    topic: Topic = NO_TOPIC
    pending_commits: list[ThreadCommit] = msgspec.field(default_factory=list)
