"""Whether a store takes writes, by how the last ones ended."""

from __future__ import annotations

from awaken.errors import CommitUnknown, StoreUnavailable


class WriteHealth:
    """Notes how writes end. It may be used by several operating-system threads."""

    __slots__ = ("is_refusing",)

    def __init__(self) -> None:
        self.is_refusing = False

    def note_success(self) -> None:
        self.is_refusing = False

    def note_error(self, error: BaseException) -> None:
        """Note an error that a caller gets. Only one that says the store cannot write counts: a
        conflict, for example, says nothing of the kind."""
        if isinstance(error, StoreUnavailable | CommitUnknown):
            self.is_refusing = True
