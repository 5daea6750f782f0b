"""A store whose commits fail when a test wants them to."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.store.store import Store
from awaken.errors import CommitUnknown, StoreUnavailable


class CommitFailure(StrEnum):
    """How a commit fails.

    `refused`: nothing was written, and the caller knows. With the other two the caller gets no
    answer: `lost` was not written, `landed` was.
    """

    REFUSED = "refused"
    LOST = "lost"
    LANDED = "landed"


_AnyStore: Any = object


class FailingStore(_AnyStore):  # type: ignore[misc]  # it has the type of the wrapped store
    """A store of which some commits fail; `failures` are by number, counted from 1.

    `then` is how all commits after the last of `failures` fail; `commits` counts all commits.
    """

    def __init__(
        self,
        store: Store,
        failures: Mapping[int, CommitFailure],
        *,
        then: CommitFailure | None = None,
    ) -> None:
        self._store = store
        self._failures = failures
        self._then = then
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.commits += 1
        number = self.commits
        is_behind = number > max(self._failures, default=0)
        failure = self._then if is_behind else self._failures.get(number)
        if failure is CommitFailure.REFUSED:
            raise StoreUnavailable(f"commit {number} was to fail")
        if failure is CommitFailure.LOST:
            raise CommitUnknown(f"commit {number} was to be lost")
        committed = await self._store.commit(commit)
        if failure is CommitFailure.LANDED:
            raise CommitUnknown(f"the answer to commit {number} was to be lost")
        return committed
