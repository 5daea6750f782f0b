"""Our stores, the protocol that a store implements, and the values it keeps.

Re-exports only; a store's module is loaded when one of its names is first used.
"""

from typing import TYPE_CHECKING

from awaken.core.message import MessageRecord
from awaken.core.profile import ProfileEntry, ProfileOwner, ProfileStore
from awaken.core.request_manifest import (
    FailedAttempt,
    RequestManifest,
    Requests,
    RequestSettings,
    StoredText,
    UnloggedMessage,
)
from awaken.core.run import (
    MessageSeqRange,
    PersistedState,
    RunMessageInput,
    RunMessageOutput,
    RunOutcome,
    RunRecord,
    RunRequestSnapshot,
    RunWaitingState,
    RunWaitingTicket,
    Takeovers,
    WaitingReason,
)
from awaken.core.store.commands import (
    CommandKind,
    Commands,
    Submission,
    SubmitMode,
    Submitted,
    ThreadCommand,
)
from awaken.core.store.commits import (
    CallEntry,
    CallPhase,
    Commits,
    Committed,
    Fence,
    Lease,
    StreamLogEntry,
    ThreadCommit,
)
from awaken.core.store.store import Process, Store
from awaken.core.store.threads import (
    ChildStrategy,
    DeleteResult,
    Page,
    RunQuery,
    ThreadContext,
    ThreadQuery,
    Threads,
    TicketQuery,
)
from awaken.core.suspension import Ticket, TicketStatus
from awaken.core.thread import Thread, ThreadMetadata, ThreadPatch
from awaken.core.unreadable import RowKind, UnreadableRow
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.stores.memory import MemoryProfiles, MemoryStore
    from awaken.stores.postgres import PostgresBlobs, PostgresProfiles, PostgresStore
    from awaken.stores.sqlite import Compacted, SqliteProfiles, SqliteStore

__all__ = [
    "CallEntry",
    "CallPhase",
    "ChildStrategy",
    "CommandKind",
    "Commands",
    "Commits",
    "Committed",
    "Compacted",
    "DeleteResult",
    "FailedAttempt",
    "Fence",
    "Lease",
    "MemoryProfiles",
    "MemoryStore",
    "MessageRecord",
    "MessageSeqRange",
    "Page",
    "PersistedState",
    "PostgresBlobs",
    "PostgresProfiles",
    "PostgresStore",
    "Process",
    "ProfileEntry",
    "ProfileOwner",
    "ProfileStore",
    "RequestManifest",
    "RequestSettings",
    "Requests",
    "RowKind",
    "RunMessageInput",
    "RunMessageOutput",
    "RunOutcome",
    "RunQuery",
    "RunRecord",
    "RunRequestSnapshot",
    "RunWaitingState",
    "RunWaitingTicket",
    "SqliteProfiles",
    "SqliteStore",
    "Store",
    "StoredText",
    "StreamLogEntry",
    "Submission",
    "SubmitMode",
    "Submitted",
    "Takeovers",
    "Thread",
    "ThreadCommand",
    "ThreadCommit",
    "ThreadContext",
    "ThreadMetadata",
    "ThreadPatch",
    "ThreadQuery",
    "Threads",
    "Ticket",
    "TicketQuery",
    "TicketStatus",
    "UnloggedMessage",
    "UnreadableRow",
    "WaitingReason",
]

lazy_names(
    __name__,
    {
        ".memory": "MemoryProfiles MemoryStore",
        ".postgres": "PostgresBlobs PostgresProfiles PostgresStore",
        ".sqlite": "Compacted SqliteProfiles SqliteStore",
    },
)
