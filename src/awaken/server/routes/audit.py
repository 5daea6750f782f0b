"""`/v1/audit`: the record of what people and programs did through the servers of this store."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.types import ASGIApp

from awaken.core.access import Deed
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.lookup import unreadable_rows
from awaken.server.request_types import PageSize, RequestPart
from awaken.server.response_types import ResponsePart, UnreadableView
from awaken.server.route import KeyRole, Route


class AuditAsked(RequestPart, frozen=True, kw_only=True):
    """How many deeds to list, newest first, and the `cursor` of the page before, to go on."""

    limit: PageSize = 200
    cursor: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None


class AuditView(ResponsePart, frozen=True, kw_only=True):
    """The deeds in the caller's scope, newest first. `cursor` is null on the last page.
    `unreadable` are deeds of this page that the server cannot decode."""

    items: tuple[Deed, ...]
    cursor: int | None
    unreadable: tuple[UnreadableView, ...] = ()


async def list_deeds(call: ApiCall) -> ASGIApp:
    asked: AuditAsked = call.query
    access, scope = call.runtime.store.access, call.principal.scope
    page = await access.list_deeds(scope, limit=asked.limit, before=asked.cursor)
    return JsonResponse(
        AuditView(
            items=tuple(deed for _, deed in page),
            cursor=int(page.cursor) if page.cursor is not None else None,
            unreadable=unreadable_rows(call, page.unreadable),
        )
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/audit",
        handle=list_deeds,
        name="list_audit",
        summary="What people and programs did through the servers of this store",
        needs=(KeyRole.ADMIN,),
        query=AuditAsked,
        answers={200: AuditView},
    ),
)
