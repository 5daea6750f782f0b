"""Reading what the search index lacks of one thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from awaken.core.rewind import Hidden, find_hidden_spans
from awaken.core.run import RunRecord
from awaken.core.search.index import EntryUpdate, IndexedHead, ThreadHead, ThreadUpdate
from awaken.core.store.store import Store
from awaken.core.store.threads import CommitView, RunQuery
from awaken.core.thread import Thread
from awaken.runtime.search.entries import EntryBuilder, thread_tags, title_entry

PAGE = 200
"""Commits of one update."""


class ThreadReading:
    """Reads the commits of a thread behind the place where the index is.

    `at` is that place; it moves with each update. A thread that was rewound is read from its
    beginning: texts may be in the index that have gone out of view.
    """

    def __init__(self, store: Store, head: ThreadHead, known: IndexedHead | None) -> None:
        self._store, self._head = store, head
        self.at = known
        is_other = known is not None and known.created_at != head.created_at
        self._is_reset = known is not None and (is_other or known.commits > head.commits)
        self._is_named = known is None or self._is_reset or known.revision != head.revision
        self._scope = ""
        self._hidden_until = 0
        """The position of the last commit that `_find_hidden` has read."""

    async def updates(self) -> AsyncIterator[ThreadUpdate]:
        thread = await self._store.load_thread(self._head.thread_id)
        if thread is None:
            return  # deleted meanwhile: the index finds that out when its turn comes
        self._scope = thread.scope
        try:
            async for update in self._updates(thread, None):
                yield update
        except _Rewound:
            hidden = await self._find_hidden(thread)
            self._is_reset = self._is_named = True
            async for update in self._updates(thread, hidden):
                yield update

    def skip(self) -> ThreadUpdate:
        """An update that passes over commits that cannot be read."""
        return self._update(self._head.commits, self.at.events if self.at is not None else 0, ())

    async def _updates(self, thread: Thread, hidden: Hidden | None) -> AsyncIterator[ThreadUpdate]:
        """
        Raises:
            _Rewound: a commit rewinds the thread, and `hidden` does not say what is out of view.
        """
        page: list[CommitView] = []
        events = self.at.events if self.at is not None and not self._is_reset else 0
        async for commit in self._commits(thread):
            if hidden is None:
                if commit.rewinds_to is not None:
                    raise _Rewound
            elif commit.position > self._hidden_until:
                break  # it may rewind the thread further: the next look begins here
            page.append(commit)
            events = max(events, commit.first_event + len(commit.events) - 1)
            if len(page) == PAGE:
                yield await self._update_from(thread, page, events, hidden or ())
                page = []
        if page or self._is_named:
            yield await self._update_from(thread, page, events, hidden or ())

    async def _update_from(
        self, thread: Thread, page: Sequence[CommitView], events: int, hidden: Hidden
    ) -> ThreadUpdate:
        entries = await self._entries(thread, page, hidden)
        tags = thread_tags(thread.metadata) if self._is_named else None
        position = page[-1].position if page else self._head.commits
        return self._update(position, events, entries, tags)

    def _update(
        self,
        commits: int,
        events: int,
        entries: tuple[EntryUpdate, ...],
        tags: tuple[str, ...] | None = None,
    ) -> ThreadUpdate:
        before, self.at = (
            self.at,
            IndexedHead(
                created_at=self._head.created_at,
                commits=commits,
                events=events,
                revision=self._head.revision,
            ),
        )
        is_reset, self._is_reset, self._is_named = self._is_reset, False, False
        return ThreadUpdate(
            thread_id=self._head.thread_id,
            scope=self._scope,
            before=before,
            after=self.at,
            is_reset=is_reset,
            entries=entries,
            tags=tags,
        )

    async def _entries(
        self, thread: Thread, page: Sequence[CommitView], hidden: Hidden
    ) -> tuple[EntryUpdate, ...]:
        builders: dict[str | None, EntryBuilder] = {}
        for commit in page:
            if commit.run_id is not None or commit.messages:
                builders.setdefault(commit.run_id, EntryBuilder()).add(commit, hidden)
        entries = [title_entry(thread)] if self._is_named else []
        for run_id, builder in builders.items():
            if run_id is None:
                entries.append(builder.of_messages(thread))
            elif (run := await self._load_run(run_id)) is not None:
                entries.append(builder.of_run(run))
        return tuple(entries)

    async def _load_run(self, run_id: str) -> RunRecord | None:
        runs = (await self._store.list_runs(RunQuery(run_id=run_id, limit=1))).items
        return runs[0] if runs else None

    async def _find_hidden(self, thread: Thread) -> Hidden:
        """What is out of view after all rewinds."""
        self._is_reset = True
        spans: list[tuple[int, int]] = []
        async for commit in self._commits(thread):
            self._hidden_until = commit.position
            if commit.rewinds_to is not None:
                spans.append((commit.rewinds_to, commit.first_seq - 1))
        return find_hidden_spans(spans)

    async def _commits(self, thread: Thread) -> AsyncIterator[CommitView]:
        """The commits behind the place where the index is; all, if it begins anew."""
        is_all = self.at is None or self._is_reset
        position, event = (0, 0) if is_all or self.at is None else (self.at.commits, self.at.events)
        limit = PAGE
        while True:
            page = await self._store.load_commits(thread.id, after=event, limit=limit)
            new = [commit for commit in page if commit.position > position]
            for commit in new:
                yield commit
                position = commit.position
                event = max(event, commit.first_event + len(commit.events) - 1)
            if len(page) < limit:
                return
            limit = PAGE if new else limit * 2  # so many commits have no events


class _Rewound(Exception):
    """The thread was rewound since the index was here."""
