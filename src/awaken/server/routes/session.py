"""`/v1/session` and `/v1/me`: who looks at the console."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response
from starlette.types import ASGIApp

from awaken._version import __version__
from awaken.core.access import Session
from awaken.server.call import Call, JsonResponse
from awaken.server.console.pages import Pages
from awaken.server.console.sessions import Sessions
from awaken.server.errors import Refused, unauthorized
from awaken.server.passes import Pass
from awaken.server.request_types import Given
from awaken.server.response_types import View
from awaken.server.route import Role, Route

WORD_LIMIT = 4 * 1024
"""The most bytes of a body that anyone may send: it has one word."""


class SessionAsked(Given, frozen=True, kw_only=True):
    """A session, with the one-time word of a link, or without one for the key of the request."""

    word: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class SessionMade(View, frozen=True, kw_only=True):
    """The token to send as `Authorization: Bearer`, and when it expires, in milliseconds since
    1970."""

    token: str
    expires_at: int


class WordMade(View, frozen=True, kw_only=True):
    """A word that begins one session of the caller, once, within ten minutes: the console takes it
    from the fragment of its address, as in `/console/#t=WORD`."""

    word: str


class Me(View, frozen=True, kw_only=True):
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


async def begin(call: Call) -> ASGIApp:
    asked: SessionAsked = call.body
    sessions: Sessions = call.request.app.state.sessions
    if asked.word is not None:
        session, token = await sessions.redeem(asked.word)
        call.request.scope["principal"] = session.principal  # the log and the audit name them
        return _made(session, token)
    if not call.principal.id:
        raise unauthorized("this needs a key, or the word of a link")
    if call.only_thread is not None or _session(call) is not None:
        raise Refused(403, "not_with_a_token", "a token cannot be made into a session: use a key")
    return _made(*await sessions.begin(call.principal, key=_key(call)))


def _key(call: Call) -> str | None:
    """The id of the key with which the caller came, now or when the session began."""
    held: Pass = call.request.scope.get("pass", Pass())
    return held.key


def _made(session: Session, token: str) -> JsonResponse:
    return JsonResponse(SessionMade(token=token, expires_at=session.expires_at_ms), 201)


async def make_word(call: Call) -> ASGIApp:
    sessions: Sessions = call.request.app.state.sessions
    word = await sessions.share_word(call.principal, _key(call))
    return JsonResponse(WordMade(word=word), status_code=201)


async def end(call: Call) -> ASGIApp:
    session = _session(call)
    if session is not None:
        await call.request.app.state.sessions.end(session)
    return Response(status_code=204)


async def get_me(call: Call) -> ASGIApp:
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


def _session(call: Call) -> Session | None:
    session: Session | None = call.request.scope.get("session")
    return session


_ANYONE = (Role.INVOKE, Role.READ, Role.DECIDE, Role.INSPECT)
ROUTES = (
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
        needs=(Role.ADMIN,),
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
