"""`/v1/openapi.json`: the OpenAPI document of all routes."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp

from awaken.server.call import ApiCall, JsonResponse
from awaken.server.openapi import document
from awaken.server.route import Route


async def describe(call: ApiCall) -> ASGIApp:
    state = call.request.app.state
    if not hasattr(state, "document"):
        state.document = document(state.routes)
    servers = [{"url": call.address("") or "/"}]
    return JsonResponse({**state.document, "servers": servers})


ROUTES = (
    Route(
        method="GET",
        path="/v1/openapi.json",
        handle=describe,
        name="get_openapi",
        summary="This document",
        answers={200: dict[str, Any]},
    ),
)
