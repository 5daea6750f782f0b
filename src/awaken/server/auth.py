"""Authentication: by key, session or stream token, or by the application's own `Authenticator`.

A stream token gives a browser, which cannot keep a key secret, access to one thread for a short
time.
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
from awaken.server.call import Credential
from awaken.server.console.sessions import Sessions
from awaken.server.edge import EdgeRequest, own_path
from awaken.server.errors import HttpRefusal, authentication_error
from awaken.server.keys import Authenticator, Keys, bearer, find_key


class Authentication:
    """Sets the principal of each request. A request without credentials has none, and may use the
    routes that need none. A request with wrong credentials is refused."""

    def __init__(self, authority: Keys | Authenticator, tokens: Tokens, sessions: Sessions) -> None:
        self._keys = None if isinstance(authority, Authenticator) else authority
        self._authenticator = authority if isinstance(authority, Authenticator) else None
        self._tokens, self._sessions = tokens, sessions

    async def check(self, request: EdgeRequest) -> None:
        head, scope = request.headers, request.scope
        if len(head.getlist("authorization")) > 1:
            raise authentication_error("there is more than one Authorization header")
        token = _token(request)
        if token is not None:
            await self._accept_token(token, scope)
            return
        session = await self._sessions.find(head)
        if session is not None:
            scope["session"], scope["terms"] = session
            scope["principal"] = session[0].principal
            scope["credential"] = Credential(key=session[0].key, session=session[0].id)
            return
        if self._authenticator is not None:
            scope["principal"] = _parse(self._authenticator.authenticate(head))
        else:
            await self._accept_key(head, scope)
        if scope["principal"] is None and "authorization" in head:
            raise authentication_error("the key is not known")

    async def is_valid(self, credential: Credential) -> bool:
        """Whether the key or session of a request is still valid."""
        if credential.session is not None:
            return await self._sessions.find_by_id(credential.session) is not None
        if credential.key is not None and self._keys is not None:
            return await self._keys.find(credential.key) is not None
        return True

    async def _accept_key(self, head: Mapping[str, str], scope: Scope) -> None:
        scope["principal"] = None
        found = await find_key(self._keys, head) if self._keys is not None else None
        if found is not None:
            id, entry = found
            scope["principal"], scope["terms"] = entry.principal(id), entry.terms
            scope["credential"] = Credential(key=id)

    async def _accept_token(self, token: str, scope: Scope) -> None:
        found = await self._tokens.read(token)
        credential = Credential(key=found.key, session=found.session)
        maker = await self._maker(found, credential)
        if maker is None or maker[0].scope != found.principal.scope:
            raise authentication_error("the key that made the token is not good any more")
        if found.path not in (None, own_path(scope)):
            raise HttpRefusal(403, "not_with_a_token", "this token is good for another path")
        scope["principal"], scope["terms"] = _limit_roles(maker[0], found.principal.roles), maker[1]
        scope["token_thread"] = found.thread
        scope["token_thread_created_at"] = found.thread_created_at
        scope["token_maker_roles"] = maker[0].roles
        scope["credential"] = credential

    async def _maker(
        self, found: TokenClaims, credential: Credential
    ) -> tuple[Principal, Terms] | None:
        """The maker of a token with its present roles, and the terms of its key; `None` if the key
        or session that made the token is not valid any more."""
        if credential.session is not None:
            session = await self._sessions.find_by_id(credential.session)
            return (session[0].principal, session[1]) if session is not None else None
        if credential.key is not None and self._keys is not None:
            entry = await self._keys.find(credential.key)
            return (entry.principal(credential.key), entry.terms) if entry is not None else None
        roles = found.maker_roles or found.principal.roles
        return msgspec.structs.replace(found.principal, roles=roles), found.terms


LOCAL = Principal(id="local", roles=tuple(KeyRole))
"""The principal of all requests to a server without keys."""


class AllowAll:
    """Authenticates every request as `LOCAL`, which has all roles."""

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


def _token(request: EdgeRequest) -> str | None:
    """The stream token of a request. In the query a token is accepted for streams alone: the
    addresses of other requests may end up in logs and histories."""
    credentials = bearer(request.headers)
    if credentials is not None:
        return credentials if Tokens.is_token(credentials) else None
    wants_stream = "text/event-stream" in request.headers.get("accept", "")
    if request.scope["method"] != "GET" or not wants_stream:
        return None
    query = parse_qs(request.scope["query_string"].decode("latin-1"))
    return next(iter(query.get("token", ())), None)


MAX_TOKEN_SECONDS = 600
_PREFIX = "awt_"


class Tokens:
    """Makes stream tokens and reads them.

    A token is `awt_<claims>.<signature>`: the claims as base64, and an HMAC over them.

    `secret` returns the secret that signs them; nodes with the same secret accept each other's
    tokens.
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

    async def make(self, claims: TokenClaims) -> str:
        payload = _encode(dumps(claims))
        return f"{_PREFIX}{payload}.{await self._sign(payload)}"

    async def read(self, token: str) -> TokenClaims:
        """
        Raises:
            HttpRefusal: the token was not made here, was changed, or has expired.
        """
        payload, _, signature = token.removeprefix(_PREFIX).partition(".")
        if not hmac.compare_digest((await self._sign(payload)).encode(), signature.encode()):
            raise authentication_error("the token is not known")
        claims = loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), TokenClaims)
        if claims.expires_at_ms <= self._clock.now_ms():
            raise authentication_error("the token has expired: make another one")
        return claims

    async def _sign(self, payload: str) -> str:
        secret = await self._secret()
        return _encode(hmac.digest(secret.encode(), payload.encode(), hashlib.sha256))


class TokenClaims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a stream token: its principal, the thread that it is valid for (by its id
    inside), the only path that it is valid for if there is one, and when it expires. `terms` are
    those of its key. `key` and `session` are the ids of the key and session that it was made with;
    the token is valid while they are.

    `thread_created_at` is set if the thread existed and the token's maker saw it: a thread that is
    created later under the same id is another one. `maker_roles` are the maker's roles that concern
    one thread; they count only for a token without a key and a session.
    """

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
