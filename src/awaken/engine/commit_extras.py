"""The parts of a commit that few commits have."""

from __future__ import annotations

import msgspec

from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import ThreadCommit
from awaken.core.ticket import Ticket


class CommitExtras(msgspec.Struct, kw_only=True):
    """The parts of a commit that few commits have; see `ThreadCommit`."""

    tickets: list[Ticket] = []
    acks: list[int] = []
    sends: list[ThreadCommand] = []
    blobs: list[str] = []
    parent_thread_id: str | None = None
    ends_stream: bool = False
    rewinds_to: int | None = None

    def added_to(self, commit: ThreadCommit) -> ThreadCommit:
        return msgspec.structs.replace(
            commit,
            tickets=tuple(self.tickets),
            acks=tuple(self.acks),
            sends=tuple(self.sends),
            parent_thread_id=self.parent_thread_id,
            ends_stream=self.ends_stream,
            blobs=tuple(self.blobs),
            rewinds_to=self.rewinds_to,
        )
