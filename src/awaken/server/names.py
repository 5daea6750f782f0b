"""Ids at the edge: clients see no scope."""

from __future__ import annotations

from awaken.domain.names import scoped_id


class Names:
    """The ids of one tenant."""

    __slots__ = ("_prefix", "scope")

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self._prefix = f"{scope}/" if scope else ""

    def new(self, given: str) -> str:
        """The id of a thread that the client names.

        Raises:
            InvalidId: clients may not name threads so.
        """
        return scoped_id(self.scope, given)

    def inside(self, given: str) -> str:
        """The id of a thread that should exist, which may be one that a run has made."""
        return self._prefix + given

    def outside(self, id: str) -> str:
        """An id as this tenant's clients see it."""
        return id.removeprefix(self._prefix)
