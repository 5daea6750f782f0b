"""`/v1/tokens`: stream tokens for browsers."""

from __future__ import annotations

import msgspec
from starlette.types import ASGIApp

from awaken.server.call import Call, JsonResponse
from awaken.server.errors import Refused
from awaken.server.given import TokenAsked
from awaken.server.intake import existing
from awaken.server.table import Role, Route
from awaken.server.tokens import Tokens
from awaken.server.views import View

_OF_A_THREAD = (Role.INVOKE, Role.READ, Role.DECIDE)


class TokenMade(View, frozen=True, kw_only=True):
    """A token, and when it expires, in milliseconds since 1970."""

    token: str
    expires_at: int


async def make(call: Call) -> ASGIApp:
    asked: TokenAsked = call.body
    thread_id = call.names.new(asked.thread_id)
    await existing(call, thread_id)
    tokens: Tokens = call.request.app.state.tokens
    principal = msgspec.structs.replace(call.principal, roles=_roles(call, asked))
    token, expires = tokens.make(principal, thread_id, asked.ttl, call.terms)
    return JsonResponse(TokenMade(token=token, expires_at=expires), status_code=201)


def _roles(call: Call, asked: TokenAsked) -> tuple[str, ...]:
    own = tuple(role.value for role in _OF_A_THREAD if call.has(role))
    for role in asked.roles or ():
        if role not in own:
            raise Refused(403, "missing_role", f"this key does not have the role {role}")
    return own if asked.roles is None else asked.roles


ROUTES = (
    Route(
        method="POST",
        path="/v1/tokens",
        handle=make,
        summary="Make a token for one thread, to hand to a browser",
        needs=_OF_A_THREAD,
        body=TokenAsked,
        answers={201: TokenMade},
        errors=(404,),
    ),
)
