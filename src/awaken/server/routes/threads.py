"""`/v1/threads`: create, list, change, copy and delete threads, and read their messages."""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp

from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import RunStatus
from awaken.core.message import MessageRecord, Visibility
from awaken.core.run import RunRecord
from awaken.core.store.threads import ChildStrategy, RunQuery, ThreadQuery
from awaken.core.thread import Thread
from awaken.errors import InvalidRecord
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.errors import HttpRefusal
from awaken.server.lookup import READERS, find_thread, may_see, page_view, visible_page
from awaken.server.request_types import (
    Count,
    ForkAsked,
    Id,
    Line,
    PageSize,
    RequestPart,
    ThreadAsked,
    ThreadChanges,
    whole,
)
from awaken.server.response_types import MessageView, PageView, ResponsePart, ThreadView
from awaken.server.route import KeyRole, Route

_READ = (KeyRole.INVOKE, KeyRole.READ)
_MAX_RESULTS = 500
_ONE = "/v1/threads/{thread}"


class ThreadsAsked(RequestPart, frozen=True, kw_only=True):
    """Which threads to list: those whose latest run began or ended last come first."""

    parent_thread_id: Id | None = None
    root: bool = False
    label: Line | None = None
    user: Line | None = None
    status: RunStatus | None = None
    agent: Id | None = None
    since: Count | None = None
    limit: PageSize = 50
    cursor: Line | None = None


class DeletionAsked(RequestPart, frozen=True, kw_only=True):
    """How to delete a thread: what becomes of threads that it has started, and whether runs that
    have no owner and are not over go with it."""

    children: ChildStrategy = ChildStrategy.REJECT
    force: bool = False


class MessagesAsked(RequestPart, frozen=True, kw_only=True):
    """Which messages to list: those with a `seq` above `after` and below `before`. Messages that
    are for the model alone are `internal`."""

    after: Count = 0
    before: Count | None = None
    limit: PageSize = 100
    order: Literal["asc", "desc"] = "asc"
    visibility: Literal["external", "internal", "all"] = "external"


class ThreadUsage(ResponsePart, frozen=True, kw_only=True):
    """What the runs of a thread have used, with all that they have started: each is counted once.
    `runs` are the thread's own. `cost` is null if no price is known; with `has_unknown_cost`, some
    are not."""

    runs: int
    usage: TokenUsage
    cost: float | None
    has_unknown_cost: bool


async def create(call: ApiCall) -> ASGIApp:
    asked: ThreadAsked = call.body
    thread = await call.runtime.create_thread(asked.id, asked.patch(), principal=call.principal)
    return _thread_response(call, thread, 201)


async def list_threads(call: ApiCall) -> ASGIApp:
    asked: ThreadsAsked = call.query
    parent = asked.parent_thread_id
    query = ThreadQuery(
        scope=call.principal.scope,
        parent_thread_id=(await find_thread(call, parent)).id if parent is not None else None,
        root=asked.root,
        label=asked.label,
        user=asked.user,
        status=asked.status,
        agent=asked.agent,
        since=asked.since,
        limit=asked.limit,
        cursor=asked.cursor,
    )
    page = await visible_page(
        call.runtime.list_threads, query, lambda thread: may_see(call, thread, READERS)
    )
    views = (ThreadView.of(thread, call.ids) for thread in page)
    return JsonResponse(page_view(call, page, views))


async def get(call: ApiCall) -> ASGIApp:
    return _thread_response(call, await find_thread(call, call.path("thread")))


async def change(call: ApiCall) -> ASGIApp:
    changes: ThreadChanges = call.body
    expected = _revision(call.request.headers.get("if-match"))
    thread = await find_thread(call, call.path("thread"))
    changed = await call.runtime.update_thread(
        thread.id, changes.patch(), expected_revision=expected
    )
    return _thread_response(call, changed)


async def delete(call: ApiCall) -> ASGIApp:
    asked: DeletionAsked = call.query
    thread = await find_thread(call, call.path("thread"))
    try:
        await call.runtime.delete_thread(
            thread.id, children=asked.children, force=asked.force, principal=call.principal
        )
    except InvalidRecord as error:
        raise HttpRefusal(409, "has_children", str(error)) from None
    return Response(status_code=204)


async def fork(call: ApiCall) -> ASGIApp:
    asked: ForkAsked = call.body
    thread = await find_thread(call, call.path("thread"))
    copy = await call.runtime.fork(
        thread.id, at=whole(asked.at), new=asked.id, principal=call.principal
    )
    return _thread_response(call, copy, 201)


async def get_usage(call: ApiCall) -> ASGIApp:
    thread = await find_thread(call, call.path("thread"))
    own = await _all_runs(call, RunQuery(thread_id=thread.id, limit=_MAX_RESULTS))
    descendants = await _all_runs(call, RunQuery(ancestor_thread_id=thread.id, limit=_MAX_RESULTS))
    runs = [*own, *descendants]
    given, made = sum(run.input_tokens for run in runs), sum(run.output_tokens for run in runs)
    known = [run.cost for run in runs if run.cost is not None]
    return JsonResponse(
        ThreadUsage(
            runs=len(own),
            usage=TokenUsage(
                prompt_tokens=given, completion_tokens=made, total_tokens=given + made
            ),
            cost=sum(known) if known else None,
            has_unknown_cost=any(
                run.cost is None and run.input_tokens + run.output_tokens > 0 for run in runs
            ),
        )
    )


async def list_messages(call: ApiCall) -> ASGIApp:
    asked: MessagesAsked = call.query
    if asked.visibility != "external":
        call.request.scope["is_audited"] = True
        if not call.has(KeyRole.INSPECT):
            raise HttpRefusal(
                403, "missing_role", "messages for the model alone need the role inspect"
            )
    thread = await find_thread(call, call.path("thread"))
    last = thread.message_count
    if asked.before is not None:
        last = min(last, asked.before - 1)
    first, found, place = asked.after + 1, list[MessageRecord](), 0
    while first <= last and len(found) < asked.limit:
        size = min(asked.limit, last - first + 1)
        after = first - 1 if asked.order == "asc" else last - size
        page = await call.runtime.store.load_records(thread.id, after=after, limit=size)
        for record in page if asked.order == "asc" else reversed(page):
            place = record.seq
            if _is_asked(record, asked.visibility):
                found.append(record)
                if len(found) == asked.limit:
                    break
        first, last = (place + 1, last) if asked.order == "asc" else (first, place - 1)
        if not page:
            break
    items = tuple(MessageView.of(record, call.ids) for record in found)
    cursor = str(place) if first <= last else None
    return JsonResponse(PageView(items=items, cursor=cursor))


def _thread_response(call: ApiCall, thread: Thread, status: int = 200) -> JsonResponse:
    etag = f'"{thread.metadata.revision}"'
    view = ThreadView.of(thread, call.ids)
    return JsonResponse(view, status_code=status, headers={"etag": etag})


def _revision(given: str | None) -> int | None:
    """The revision that an `If-Match` header names: the `ETag` of an earlier answer, or `*`."""
    if given is None or given.strip() == "*":
        return None
    found = re.fullmatch(r'"?([0-9]{1,15})"?', given.strip())
    if found is None:
        raise HttpRefusal(400, "bad_header", "If-Match is the ETag of an earlier answer, or *")
    return int(found[1])


async def _all_runs(call: ApiCall, query: RunQuery) -> list[RunRecord]:
    page = await call.runtime.list_runs(query)
    found = list(page.items)
    while page.cursor is not None:
        page = await call.runtime.list_runs(msgspec.structs.replace(query, cursor=page.cursor))
        found += page.items
    return found


def _is_asked(record: MessageRecord, visibility: str) -> bool:
    if visibility == "all":
        return True
    return (record.message.visibility is Visibility.INTERNAL) == (visibility == "internal")


ROUTES = (
    Route(
        method="POST",
        path="/v1/threads",
        handle=create,
        name="create_thread",
        summary="Begin an empty thread",
        needs=(KeyRole.INVOKE,),
        body=ThreadAsked,
        answers={201: ThreadView},
        errors=(409,),
    ),
    Route(
        method="GET",
        path="/v1/threads",
        handle=list_threads,
        name="list_threads",
        summary="List threads",
        needs=_READ,
        query=ThreadsAsked,
        answers={200: PageView[ThreadView]},
        errors=(404, 410),
    ),
    Route(
        method="GET",
        path=_ONE,
        handle=get,
        name="get_thread",
        summary="Get one thread",
        needs=_READ,
        answers={200: ThreadView},
        takes_tokens=True,
    ),
    Route(
        method="GET",
        path=_ONE + "/usage",
        handle=get_usage,
        name="get_thread_usage",
        summary="What the runs of a thread and of all beneath it have used",
        needs=_READ,
        answers={200: ThreadUsage},
        takes_tokens=True,
    ),
    Route(
        method="PATCH",
        path=_ONE,
        handle=change,
        name="update_thread",
        summary="Change a thread's title, labels, user or custom values",
        needs=(KeyRole.INVOKE,),
        body=ThreadChanges,
        answers={200: ThreadView},
        errors=(412,),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handle=delete,
        name="delete_thread",
        summary="Delete a thread and all that belongs to it",
        needs=(KeyRole.ADMIN,),
        query=DeletionAsked,
        answers={204: None},
        errors=(409,),
    ),
    Route(
        method="POST",
        path=_ONE + "/fork",
        handle=fork,
        name="fork_thread",
        summary="Copy a thread as it is, or as it was",
        needs=(KeyRole.INVOKE,),
        body=ForkAsked,
        answers={201: ThreadView},
        errors=(409,),
    ),
    Route(
        method="GET",
        path=_ONE + "/messages",
        handle=list_messages,
        name="list_messages",
        summary="List a thread's messages; a page's cursor is the next one's `after` or `before`",
        needs=_READ,
        query=MessagesAsked,
        answers={200: PageView[MessageView]},
        takes_tokens=True,
    ),
)
