"""Finds the thread, run or ticket that a client names, if the client may see it.

If it does not exist, belongs to another scope or may not be seen, the answer is the same 404. A
thread is visible with its whole tree: whatever a run has started is as visible as the thread at the
root.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import msgspec

from awaken.core.run import RunRecord
from awaken.core.search.query import SearchQuery
from awaken.core.store.threads import Page, RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import Ticket
from awaken.core.thread import Thread
from awaken.core.unreadable import UnreadableRow
from awaken.errors import InvalidRecord, UnreadableRecord
from awaken.server.call import ApiCall
from awaken.server.errors import HttpRefusal, not_found_error
from awaken.server.response_types import PageView, UnreadableView
from awaken.server.route import KeyRole

T = TypeVar("T")
Query = TypeVar("Query", RunQuery, ThreadQuery, TicketQuery, SearchQuery)

READERS = (KeyRole.READ,)
DECIDERS = (KeyRole.READ, KeyRole.DECIDE)
_MAX_PAGES = 20
"""The most pages of a list that are read for one page of what the client may see."""


async def find_thread(call: ApiCall, given: str, see_all: tuple[KeyRole, ...] = READERS) -> Thread:
    """The thread that a client names. Callers without one of the roles `see_all` see only threads
    that they have created.

    Raises:
        HttpRefusal: there is none that the client may see.
    """
    for id in call.ids.candidates(given):
        thread = await call.runtime.store.load_thread(id)
        if thread is not None and await may_see(call, thread, see_all):
            return thread
    raise not_found_error("thread")


async def find_run(
    call: ApiCall, given: str, see_all: tuple[KeyRole, ...] = READERS
) -> tuple[RunRecord, Thread]:
    """The run that a client names, without its state, and its thread.

    Raises:
        HttpRefusal: there is none that the client may see.
    """
    for id in call.ids.candidates(given):
        page = await call.runtime.list_runs(RunQuery(run_id=id, scope=call.principal.scope))
        if page.unreadable and may_read_all(call):
            row = page.unreadable[0]
            raise UnreadableRecord(row.kind, row.id, row.reason)
        for run in page:
            thread = await call.runtime.store.load_thread(run.thread_id)
            if thread is not None and await may_see(call, thread, see_all):
                return run, thread
    raise not_found_error("run")


async def find_ticket(call: ApiCall, key: str) -> Ticket:
    """The ticket with a key.

    Raises:
        HttpRefusal: there is none that the client may see.
    """
    found = await call.runtime.list_tickets(TicketQuery(scope=call.principal.scope, key=key))
    for ticket in found:
        if await may_see_in(call, ticket.thread_id, DECIDERS):
            return ticket
    raise not_found_error("ticket")


async def may_see_in(call: ApiCall, thread_id: str, see_all: tuple[KeyRole, ...]) -> bool:
    """Whether the client may see the runs and tickets of a thread, by the thread's id inside."""
    thread = await call.runtime.store.load_thread(thread_id)
    return thread is not None and await may_see(call, thread, see_all)


async def may_see(call: ApiCall, thread: Thread, see_all: tuple[KeyRole, ...]) -> bool:
    """Whether the client may see a thread. With a token it sees no more than the token's maker
    sees now."""
    principal = call.principal
    if thread.scope != principal.scope:
        return False
    root = await root_of(call, thread)
    if call.only_thread not in (None, root.id):
        return False
    if root.metadata.created_by != principal.id and not _may_see_others(call, root, see_all):
        return False
    return principal.agents is None or await _is_of_agents(call, root, principal.agents)


def _may_see_others(call: ApiCall, root: Thread, see_all: tuple[KeyRole, ...]) -> bool:
    """Whether the caller may see a thread that another principal has created."""
    if call.has(*see_all):
        return True
    # With a token of any role, a client may read the thread that the token's maker saw. For more
    # than reading, the token itself needs one of the roles `see_all`.
    is_reading = KeyRole.READ in see_all
    is_seen_thread = call.token_thread_created_at == root.created_at
    return is_reading and is_seen_thread and call.has_token_maker(*see_all)


async def root_of(call: ApiCall, thread: Thread) -> Thread:
    """The thread at the root of a thread's tree."""
    root_id = call.ids.inside(thread.family)
    if thread.parent_thread_id is None or root_id == thread.id:
        return thread
    return await call.runtime.store.load_thread(root_id) or thread


async def _is_of_agents(call: ApiCall, root: Thread, agents: tuple[str, ...]) -> bool:
    """Whether the thread's latest run is one of these agents'. A copy without runs is treated like
    its original, if that still exists; an empty thread is allowed."""
    seen: set[str] = set()
    while root.id not in seen:
        seen.add(root.id)
        for run in await call.runtime.list_runs(RunQuery(thread_id=root.id, limit=1)):
            return run.agent_id in agents
        if root.message_count == root.event_count == 0:
            return True
        origin = await _original_of(call, root)
        if origin is None:
            return False
        root = await root_of(call, origin)
    return False


async def _original_of(call: ApiCall, copy: Thread) -> Thread | None:
    """The thread that a copy was made from; `None` if it does not exist any more. Another thread
    may have its id now: the original is the one that has the last event that was copied."""
    if copy.forked_from is None or not copy.forked_at:
        return None
    store, before = call.runtime.store, copy.forked_at - 1
    origin = await store.load_thread(copy.forked_from)
    if origin is None:
        return None
    events = [
        [(event.run_id, event.at_ms, event.event) for event in found]
        for id in (copy.id, origin.id)
        if (found := await store.load_events(id, after=before, limit=1))
    ]
    return origin if len(events) == 2 and events[0] == events[1] else None


def may_read_all(call: ApiCall) -> bool:
    """Whether the client may read everything that its scope has."""
    return call.has(*READERS) and call.principal.agents is None and call.only_thread is None


def unreadable_rows(call: ApiCall, rows: Iterable[UnreadableRow]) -> tuple[UnreadableView, ...]:
    """The rows of a list that cannot be decoded, for a client that may read the whole scope."""
    if not may_read_all(call):
        return ()
    return tuple(UnreadableView.of(row, call.ids) for row in rows)


def page_view(call: ApiCall, page: Page[Any], items: Iterable[T]) -> PageView[T]:
    """A page as the client sees it, with these items."""
    return PageView(
        items=tuple(items),
        cursor=page.cursor,
        unreadable=unreadable_rows(call, page.unreadable),
    )


async def visible_page(
    list_page: Callable[[Query], Awaitable[Page[T]]],
    query: Query,
    is_visible: Callable[[T], Awaitable[bool]],
) -> Page[T]:
    """A page of what the client may see. It may have fewer items than the client asked for though
    there are more, as its cursor then says.

    Raises:
        HttpRefusal: the cursor is not one of this list.
    """
    items: list[T] = []
    unreadable: list[UnreadableRow] = []
    limit = query.limit
    for _ in range(_MAX_PAGES):
        try:
            page = await list_page(query)
        except InvalidRecord as error:
            raise HttpRefusal(410, "cursor_gone", str(error)) from None
        items += [item for item in page if await is_visible(item)]
        unreadable += page.unreadable
        if page.cursor is None or len(items) >= limit:
            break
        query = msgspec.structs.replace(query, cursor=page.cursor, limit=limit - len(items))
    return Page(items=tuple(items), cursor=page.cursor, unreadable=tuple(unreadable))
