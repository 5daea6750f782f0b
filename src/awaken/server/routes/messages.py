"""`/v1/threads/{thread}/messages`: the log of a thread."""

from __future__ import annotations

from typing import Literal

from starlette.types import ASGIApp

from awaken.core.message import MessageRecord, Visibility
from awaken.server.call import Call, JsonResponse
from awaken.server.errors import Refused
from awaken.server.lookup import find_thread
from awaken.server.request_types import Count, Given, PageSize
from awaken.server.response_types import MessageView, PageView
from awaken.server.route import Role, Route


class MessagesAsked(Given, frozen=True, kw_only=True):
    """Which messages to list: those with a `seq` above `after` and below `before`. Messages that
    are for the model alone are `internal`."""

    after: Count = 0
    before: Count | None = None
    limit: PageSize = 100
    order: Literal["asc", "desc"] = "asc"
    visibility: Literal["external", "internal", "all"] = "external"


async def list_messages(call: Call) -> ASGIApp:
    asked: MessagesAsked = call.query
    if asked.visibility != "external":
        call.request.scope["is_audited"] = True
        if not call.has(Role.INSPECT):
            raise Refused(403, "missing_role", "messages for the model alone need the role inspect")
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
    items = tuple(MessageView.of(record, call.names) for record in found)
    cursor = str(place) if first <= last else None
    return JsonResponse(PageView(items=items, cursor=cursor))


def _is_asked(record: MessageRecord, visibility: str) -> bool:
    if visibility == "all":
        return True
    return (record.message.visibility is Visibility.INTERNAL) == (visibility == "internal")


ROUTES = (
    Route(
        method="GET",
        path="/v1/threads/{thread}/messages",
        handle=list_messages,
        name="list_messages",
        summary="List a thread's messages; a page's cursor is the next one's `after` or `before`",
        needs=(Role.INVOKE, Role.READ),
        query=MessagesAsked,
        answers={200: PageView[MessageView]},
        takes_tokens=True,
    ),
)
