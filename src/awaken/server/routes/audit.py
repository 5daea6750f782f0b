"""`/v1/audit`: what people and programs did through this server."""

from __future__ import annotations

from starlette.types import ASGIApp

from awaken.server.call import Call, JsonResponse
from awaken.server.console.audit import Audit, Deed
from awaken.server.given import Given, PageSize
from awaken.server.table import Role, Route
from awaken.server.views import View


class AuditAsked(Given, frozen=True, kw_only=True):
    """How many deeds to list, newest first."""

    limit: PageSize = 200


class AuditView(View, frozen=True, kw_only=True):
    """The deeds in the caller's scope that this node has seen, newest first."""

    items: tuple[Deed, ...]


async def list_deeds(call: Call) -> ASGIApp:
    asked: AuditAsked = call.query
    audit: Audit = call.request.app.state.audit
    return JsonResponse(AuditView(items=tuple(audit.newest(call.principal.scope, asked.limit))))


ROUTES = (
    Route(
        method="GET",
        path="/v1/audit",
        handle=list_deeds,
        summary="What people and programs did through this server",
        needs=(Role.ADMIN,),
        query=AuditAsked,
        answers={200: AuditView},
    ),
)
