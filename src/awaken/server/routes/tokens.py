"""`/v1/tokens`: stream tokens for browsers."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec
from msgspec import UNSET
from starlette.routing import compile_path
from starlette.types import ASGIApp

from awaken.core.address import split_address
from awaken.core.thread import Thread
from awaken.server.call import Call, JsonResponse
from awaken.server.errors import Refused, unknown
from awaken.server.lookup import DECIDERS, find_run, find_thread, find_ticket, root_of
from awaken.server.passes import Pass
from awaken.server.request_types import OneTokenAsked, TokenAsked
from awaken.server.response_types import View
from awaken.server.route import Role, Route
from awaken.server.submit import existing
from awaken.server.tokens import Claims, Tokens

_OF_A_THREAD = (Role.INVOKE, Role.READ, Role.DECIDE)


class TokenMade(View, frozen=True, kw_only=True):
    """A token, and when it expires, in milliseconds since 1970."""

    token: str
    expires_at: int


async def make(call: Call) -> ASGIApp:
    asked: TokenAsked = call.body
    path, thread = None, None
    if asked.path is UNSET:
        thread_id = call.names.new(str(asked.thread_id))
        thread = await existing(call, thread_id)
    else:
        path = unquote(split_address(asked.path).path).removeprefix(call.address(""))
        thread = await _thread_of(call, path)
        thread_id = thread.id
    tokens: Tokens = call.request.app.state.tokens
    principal = msgspec.structs.replace(call.principal, roles=_roles(call, asked))
    held: Pass = call.request.scope.get("pass", Pass())
    claims = Claims(
        principal=principal,
        thread=thread_id,
        thread_created_at=thread.created_at if thread is not None else None,
        maker_roles=_own_roles(call),
        path=path,
        expires_at_ms=tokens.expiry(asked.ttl),
        terms=call.terms,
        key=held.key,
        session=held.session,
    )
    made = TokenMade(token=await tokens.make(claims), expires_at=claims.expires_at_ms)
    return JsonResponse(made, status_code=201)


async def _thread_of(call: Call, path: str) -> Thread:
    """The thread at the root of what a path is about.

    Raises:
        Refused: it is about no thread that the client may see.
    """
    for route in call.request.app.state.routes:
        found = compile_path(route.path)[0].match(path) if route.takes_tokens else None
        if found is not None:
            break
    else:
        raise unknown("path")
    match found.groupdict():
        case {"run": run}:
            thread = (await find_run(call, run))[1]
        case {"ticket": key}:
            ticket = await find_ticket(call, key)
            thread = await find_thread(call, call.names.outside(ticket.thread_id), DECIDERS)
        case {"thread": id} | {"chat": id}:
            thread = await find_thread(call, id)
        case _:
            raise unknown("path")
    return await root_of(call, thread)


def _own_roles(call: Call) -> tuple[str, ...]:
    """The roles of the caller that concern one thread."""
    return tuple(role.value for role in _OF_A_THREAD if call.has(role))


def _roles(call: Call, asked: TokenAsked) -> tuple[str, ...]:
    own = _own_roles(call)
    for role in asked.roles or ():
        if role not in own:
            raise Refused(403, "missing_role", f"this key does not have the role {role}")
    return own if asked.roles is None else asked.roles


ROUTES = (
    Route(
        method="POST",
        path="/v1/tokens",
        handle=make,
        name="create_token",
        summary="Make a token for one thread or one path, to hand to a browser",
        needs=_OF_A_THREAD,
        body=OneTokenAsked,
        answers={201: TokenMade},
        errors=(404,),
        # A page makes one for every stream; it allows no more than its maker may do anyway.
        is_audited=False,
    ),
)
