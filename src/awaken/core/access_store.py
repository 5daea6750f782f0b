"""The stored access data of servers: keys, sessions, and audit entries."""

from __future__ import annotations

from typing import Protocol

from awaken.core.access import Deed, KeyEntry, Session
from awaken.core.store.threads import Page


class Access(Protocol):
    """Keys by id, sessions by id, and the audit. Agents and runs never touch them.

    The server decides about permissions: a store only keeps entries. All nodes of a store see the
    same entries.
    """

    async def add_key(self, id: str, entry: KeyEntry) -> None:
        """
        Raises:
            AlreadyExists: there is a key with this id.
        """
        ...

    async def find_key(self, id: str) -> KeyEntry | None:
        """The key with an id; `None` also if its row cannot be decoded."""
        ...

    async def list_keys(self) -> Page[tuple[str, KeyEntry]]:
        """The keys of all tenants with their ids, in the order of these: all on one page."""
        ...

    async def revoke_key(self, id: str) -> bool:
        """Delete a key; no node finds it from now on. Returns whether there was one."""
        ...

    async def signing_secret(self) -> str:
        """The secret that servers sign with: made at the first call, then always the same."""
        ...

    async def begin_session(self, session: Session, *, now_ms: int) -> None:
        """Keep a session, and delete those that are over."""
        ...

    async def find_session(self, id: str) -> Session | None:
        """The session, also if its time is over; `None` also if its row cannot be decoded."""
        ...

    async def end_session(self, id: str) -> Session | None:
        """Delete a session and return it. Of several callers at once, one gets it."""
        ...

    async def note_deed(self, deed: Deed) -> None: ...

    async def list_deeds(
        self, scope: str, *, limit: int, before: int | None = None
    ) -> Page[tuple[int, Deed]]:
        """The audit entries of a tenant with their numbers, newest first; only those before a
        number. The page's cursor is the number before which the next page begins."""
        ...

    async def delete_deeds(self, *, before_ms: int) -> int:
        """Delete the older audit entries of all tenants; returns how many."""
        ...

    async def clear_scope(self, scope: str) -> int:
        """Delete the keys, sessions and audit entries of a tenant, which has a name; returns how
        many."""
        ...
