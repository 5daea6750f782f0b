"""`/v1/session`, `/v1/me`, `/v1/tokens`: sessions of the console, stream tokens for browsers."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Meta
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp

from awaken._version import __version__
from awaken.core.access import Session
from awaken.core.address import split_address
from awaken.core.thread import Thread
from awaken.server.auth import TokenClaims, Tokens
from awaken.server.call import ApiCall, Credential, JsonResponse
from awaken.server.console.pages import Pages
from awaken.server.console.sessions import Sessions
from awaken.server.errors import HttpRefusal, authentication_error, not_found_error
from awaken.server.lookup import DECIDERS, find_run, find_thread, find_ticket, root_of
from awaken.server.request_types import OneTokenAsked, RequestPart, TokenAsked
from awaken.server.response_types import ResponsePart
from awaken.server.route import KeyRole, Route
from awaken.server.submit import load_visible_thread

_ANYONE = (KeyRole.INVOKE, KeyRole.READ, KeyRole.DECIDE, KeyRole.INSPECT)

_OF_A_THREAD = (KeyRole.INVOKE, KeyRole.READ, KeyRole.DECIDE)
WORD_LIMIT = 4 * 1024
"""The most bytes of a body that a client without a key may send: it has one word."""


class SessionAsked(RequestPart, frozen=True, kw_only=True):
    """A session, with the one-time word of a link, or without one for the key of the request."""

    word: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class SessionMade(ResponsePart, frozen=True, kw_only=True):
    """The token to send as `Authorization: Bearer`, and when it expires, in milliseconds since
    1970."""

    token: str
    expires_at: int


class WordMade(ResponsePart, frozen=True, kw_only=True):
    """A word that begins one session of the caller, once, within ten minutes: the console takes it
    from the fragment of its address, as in `/console/#t=WORD`."""

    word: str


class TokenMade(ResponsePart, frozen=True, kw_only=True):
    """A token, and when it expires, in milliseconds since 1970."""

    token: str
    expires_at: int


class Me(ResponsePart, frozen=True, kw_only=True):
    """Who the caller is, what they may do, and what serves them. `agents` are the only agents they
    may use; null: all. `features` are what this server can do beyond the usual. `build` changes
    with the console's files."""

    name: str
    scope: str
    roles: tuple[str, ...]
    agents: tuple[str, ...] | None
    has_session: bool
    features: tuple[str, ...]
    version: str
    build: str


async def begin(call: ApiCall) -> ASGIApp:
    asked: SessionAsked = call.body
    sessions: Sessions = call.request.app.state.sessions
    if asked.word is not None:
        session, token = await sessions.redeem(asked.word)
        call.request.scope["principal"] = session.principal  # the log and the audit name them
        return _session_response(session, token)
    if not call.principal.id:
        raise authentication_error("this needs a key, or the word of a link")
    if call.only_thread is not None or _session(call) is not None:
        raise HttpRefusal(
            403, "not_with_a_token", "a token cannot be made into a session: use a key"
        )
    return _session_response(*await sessions.begin(call.principal, key=_key(call)))


async def make_word(call: ApiCall) -> ASGIApp:
    sessions: Sessions = call.request.app.state.sessions
    word = await sessions.share_word(call.principal, _key(call))
    return JsonResponse(WordMade(word=word), status_code=201)


async def end(call: ApiCall) -> ASGIApp:
    session = _session(call)
    if session is not None:
        await call.request.app.state.sessions.end(session)
    return Response(status_code=204)


async def get_me(call: ApiCall) -> ASGIApp:
    who, pages = call.principal, call.request.app.state.pages
    assert isinstance(pages, Pages)
    return JsonResponse(
        Me(
            name=who.id,
            scope=who.scope,
            roles=tuple(who.roles),
            agents=who.agents,
            has_session=_session(call) is not None,
            features=getattr(call.request.app.state, "features", ()),
            version=__version__,
            build=pages.build,
        )
    )


async def make(call: ApiCall) -> ASGIApp:
    asked: TokenAsked = call.body
    path, thread = None, None
    if asked.path is UNSET:
        thread_id = call.ids.new(str(asked.thread_id))
        thread = await load_visible_thread(call, thread_id)
    else:
        path = unquote(split_address(asked.path).path).removeprefix(call.address(""))
        thread = await _thread_of(call, path)
        thread_id = thread.id
    tokens: Tokens = call.request.app.state.tokens
    principal = msgspec.structs.replace(call.principal, roles=_roles(call, asked))
    credential: Credential = call.request.scope.get("credential", Credential())
    claims = TokenClaims(
        principal=principal,
        thread=thread_id,
        thread_created_at=thread.created_at if thread is not None else None,
        maker_roles=_own_roles(call),
        path=path,
        expires_at_ms=tokens.expiry(asked.ttl),
        terms=call.terms,
        key=credential.key,
        session=credential.session,
    )
    made = TokenMade(token=await tokens.make(claims), expires_at=claims.expires_at_ms)
    return JsonResponse(made, status_code=201)


def _key(call: ApiCall) -> str | None:
    """The id of the caller's key: that of this request, or that with which the session began."""
    credential: Credential = call.request.scope.get("credential", Credential())
    return credential.key


def _session_response(session: Session, token: str) -> JsonResponse:
    return JsonResponse(SessionMade(token=token, expires_at=session.expires_at_ms), 201)


def _session(call: ApiCall) -> Session | None:
    session: Session | None = call.request.scope.get("session")
    return session


async def _thread_of(call: ApiCall, path: str) -> Thread:
    """The thread at the root of the thread that a path belongs to.

    Raises:
        HttpRefusal: the client may not see such a thread.
    """
    for route in call.request.app.state.routes:
        found = compile_path(route.path)[0].match(path) if route.takes_tokens else None
        if found is not None:
            break
    else:
        raise not_found_error("path")
    match found.groupdict():
        case {"run": run}:
            thread = (await find_run(call, run))[1]
        case {"ticket": key}:
            ticket = await find_ticket(call, key)
            thread = await find_thread(call, call.ids.outside(ticket.thread_id), DECIDERS)
        case {"thread": id} | {"chat": id}:
            thread = await find_thread(call, id)
        case _:
            raise not_found_error("path")
    return await root_of(call, thread)


def _own_roles(call: ApiCall) -> tuple[str, ...]:
    """The roles of the caller that concern one thread."""
    return tuple(role.value for role in _OF_A_THREAD if call.has(role))


def _roles(call: ApiCall, asked: TokenAsked) -> tuple[str, ...]:
    own = _own_roles(call)
    for role in asked.roles or ():
        if role not in own:
            raise HttpRefusal(403, "missing_role", f"this key does not have the role {role}")
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
        # A page makes a token for every stream, which allows no more than its maker may do.
        is_audited=False,
    ),
    Route(
        method="POST",
        path="/v1/session",
        handle=begin,
        name="begin_session",
        summary="Begin a session, with a key or with the one-time word of a link",
        body=SessionAsked,
        body_limit=WORD_LIMIT,
        answers={201: SessionMade},
        errors=(401,),
    ),
    Route(
        method="POST",
        path="/v1/session/words",
        handle=make_word,
        name="create_session_word",
        summary="Make a one-time word, which begins a session of the caller in another browser",
        needs=(KeyRole.ADMIN,),
        answers={201: WordMade},
    ),
    Route(
        method="DELETE",
        path="/v1/session",
        handle=end,
        name="end_session",
        summary="End the session of this request",
        needs=_ANYONE,
        answers={204: None},
    ),
    Route(
        method="GET",
        path="/v1/me",
        handle=get_me,
        name="get_me",
        summary="Who makes this request, and what they may do",
        needs=_ANYONE,
        answers={200: Me},
    ),
)
