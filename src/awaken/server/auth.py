"""Authentication: by key, session or stream token, or by the code of the server's owner.

A stream token is a short-lived right to one thread, for a browser, which cannot keep a key secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qs

import msgspec
from starlette.types import Scope

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import dumps, loads
from awaken.core.access import NO_TERMS, KeyRole, Terms
from awaken.core.identity import Principal
from awaken.core.storable import parse_argument
from awaken.errors import ConfigError
from awaken.server.call import Pass
from awaken.server.console.sessions import Sessions
from awaken.server.edge import Arrival, own_path
from awaken.server.errors import Refused, unauthorized
from awaken.server.keys import Authenticator, Keys, bearer, known_key


class Authentication:
    """Finds out who makes a request. One without credentials goes on, to the routes that need no
    key; one with wrong ones is refused."""

    def __init__(self, who: Keys | Authenticator, tokens: Tokens, sessions: Sessions) -> None:
        self._keys = None if isinstance(who, Authenticator) else who
        self._authenticator = who if isinstance(who, Authenticator) else None
        self._tokens, self._sessions = tokens, sessions

    async def check(self, arrival: Arrival) -> None:
        head, scope = arrival.request_headers, arrival.scope
        if len(head.getlist("authorization")) > 1:
            raise unauthorized("there is more than one Authorization header")
        token = _token(arrival)
        if token is not None:
            await self._take_token(token, scope)
            return
        session = await self._sessions.find(head)
        if session is not None:
            scope["session"], scope["terms"] = session
            scope["principal"] = session[0].principal
            scope["pass"] = Pass(key=session[0].key, session=session[0].id)
            return
        if self._authenticator is not None:
            scope["principal"] = _parse(self._authenticator.authenticate(head))
        else:
            await self._take_key(head, scope)
        if scope["principal"] is None and "authorization" in head:
            raise unauthorized("the key is not known")

    async def is_good(self, held: Pass) -> bool:
        """Whether what a request was let in with is still good."""
        if held.session is not None:
            return await self._sessions.find_by_id(held.session) is not None
        if held.key is not None and self._keys is not None:
            return await self._keys.find(held.key) is not None
        return True

    async def _take_key(self, head: Mapping[str, str], scope: Scope) -> None:
        scope["principal"] = None
        found = await known_key(self._keys, head) if self._keys is not None else None
        if found is not None:
            id, entry = found
            scope["principal"], scope["terms"] = entry.principal(id), entry.terms
            scope["pass"] = Pass(key=id)

    async def _take_token(self, token: str, scope: Scope) -> None:
        found = await self._tokens.read(token)
        held = Pass(key=found.key, session=found.session)
        maker = await self._maker(found, held)
        if maker is None or maker[0].scope != found.principal.scope:
            raise unauthorized("the key that made the token is not good any more")
        if found.path not in (None, own_path(scope)):
            raise Refused(403, "not_with_a_token", "this token is good for another path")
        scope["principal"], scope["terms"] = _limit_roles(maker[0], found.principal.roles), maker[1]
        scope["token_thread"] = found.thread
        scope["token_thread_created_at"] = found.thread_created_at
        scope["token_maker_roles"] = maker[0].roles
        scope["pass"] = held

    async def _maker(self, found: Claims, held: Pass) -> tuple[Principal, Terms] | None:
        """Who made a token, as their key says now, and its terms; `None` if it is not good."""
        if held.session is not None:
            session = await self._sessions.find_by_id(held.session)
            return (session[0].principal, session[1]) if session is not None else None
        if held.key is not None and self._keys is not None:
            entry = await self._keys.find(held.key)
            return (entry.principal(held.key), entry.terms) if entry is not None else None
        roles = found.maker_roles or found.principal.roles
        return msgspec.structs.replace(found.principal, roles=roles), found.terms


LOCAL = Principal(id="local", roles=tuple(KeyRole))
"""Who makes requests to a server without keys."""


class Everyone:
    """Lets everyone in, with all roles, as on one's own machine."""

    def authenticate(self, head: Mapping[str, str]) -> Principal | None:
        return LOCAL


def _parse(principal: Principal | None) -> Principal | None:
    """
    Raises:
        TypeError: code of the server's owner has returned something else, or a field of it has a
            wrong type, such as an id that is a number.
    """
    try:
        parsed: Principal | None = parse_argument("principal", principal, Principal | None)
        return parsed
    except ConfigError as error:
        # No client can help this: it is logged, and the client gets a 500.
        raise TypeError(f"what authenticate returned cannot be used: {error}") from error


def _limit_roles(maker: Principal, roles: tuple[str, ...]) -> Principal:
    """The maker of a token with those of its roles that the maker still has."""
    if KeyRole.ADMIN not in maker.roles:
        roles = tuple(role for role in roles if role in maker.roles)
    return msgspec.structs.replace(maker, roles=roles)


def _token(arrival: Arrival) -> str | None:
    """The stream token of a request. In the query it is for streams alone: other addresses may end
    up in logs and histories."""
    given = bearer(arrival.request_headers)
    if given is not None:
        return given if Tokens.is_token(given) else None
    wants_stream = "text/event-stream" in arrival.request_headers.get("accept", "")
    if arrival.scope["method"] != "GET" or not wants_stream:
        return None
    asked = parse_qs(arrival.scope["query_string"].decode("latin-1"))
    return next(iter(asked.get("token", ())), None)


MOST_SECONDS = 600
_PREFIX = "awt_"


class Tokens:
    """Makes stream tokens and reads them.

    A token is `awt_<claims>.<signature>`: the claims as base64, and an HMAC over them.

    `secret` returns what signs them; nodes with the same secret accept each other's tokens.
    """

    def __init__(self, secret: Callable[[], Awaitable[str]], clock: Clock = SYSTEM_CLOCK) -> None:
        self._secret, self._clock = secret, clock

    @staticmethod
    def is_token(text: str) -> bool:
        """Whether a text looks like a token, and not like a key."""
        return text.startswith(_PREFIX)

    def expiry(self, seconds: float) -> int:
        """When a token expires that is made now, in milliseconds."""
        return self._clock.now_ms() + round(seconds * 1000)

    async def make(self, claims: Claims) -> str:
        said = _encode(dumps(claims))
        return f"{_PREFIX}{said}.{await self._sign(said)}"

    async def read(self, token: str) -> Claims:
        """
        Raises:
            Refused: the token was not made here, was changed, or has expired.
        """
        said, _, signature = token.removeprefix(_PREFIX).partition(".")
        if not hmac.compare_digest((await self._sign(said)).encode(), signature.encode()):
            raise unauthorized("the token is not known")
        claims = loads(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)), Claims)
        if claims.expires_at_ms <= self._clock.now_ms():
            raise unauthorized("the token has expired: make another one")
        return claims

    async def _sign(self, said: str) -> str:
        secret = await self._secret()
        return _encode(hmac.digest(secret.encode(), said.encode(), hashlib.sha256))


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token says: whose it is, the thread it is good for (by its id inside), the only path
    it is good for if there is one, and until when. It was made with a key, whose `terms` it has,
    and perhaps in a session, by their ids: it is good while they are.

    `thread_created_at` is there if the thread was, and its maker saw it: one that is begun later
    under the same id is another thread. `maker_roles` are those of the maker that concern one
    thread; if it has a key or a session, they are asked for its roles instead."""

    principal: Principal
    thread: str
    thread_created_at: int | None = None
    maker_roles: tuple[str, ...] = ()
    path: str | None = None
    expires_at_ms: int
    terms: Terms = NO_TERMS
    key: str | None = None
    session: str | None = None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
