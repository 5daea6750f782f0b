"""Stream tokens: short-lived rights to one thread, for browsers, which cannot keep a key secret.

A token is `awt_<claims>.<signature>`: the claims as base64, and an HMAC over them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import dumps, loads
from awaken.core.access import NO_TERMS, Terms
from awaken.core.principal import Principal
from awaken.server.errors import unauthorized

MOST_SECONDS = 600
_PREFIX = "awt_"


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


class Tokens:
    """Makes tokens and reads them.

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


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
