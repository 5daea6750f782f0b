"""Stream tokens: short-lived rights to one thread, for browsers, which cannot keep a key secret.

A token is `awt_<claims>.<signature>`: the claims as base64, and an HMAC over them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import dumps, loads
from awaken.domain.principal import Principal
from awaken.server.errors import unauthorized
from awaken.server.keys import NO_TERMS, Terms

MOST_SECONDS = 600
_PREFIX = "awt_"


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token says: whose it is, the thread it is good for (by its id inside), the only path
    it is good for if there is one, and until when. The `terms` are those of the key it was made
    with."""

    principal: Principal
    thread: str
    path: str | None = None
    expires_at_ms: int
    terms: Terms = NO_TERMS


class Tokens:
    """Makes tokens and reads them.

    `secret` returns what signs them; nodes with the same secret accept each other's tokens. If it
    returns `None`, tokens are good on this node only, while it lives.
    """

    def __init__(
        self, secret: Callable[[], str | None] = lambda: None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._secret, self._clock = secret, clock
        self._own = secrets.token_hex(32)

    @staticmethod
    def is_token(text: str) -> bool:
        """Whether a text looks like a token, and not like a key."""
        return text.startswith(_PREFIX)

    def make(
        self,
        principal: Principal,
        thread: str,
        seconds: float,
        terms: Terms,
        path: str | None = None,
    ) -> tuple[str, int]:
        """A token for a thread, and when it expires, in milliseconds."""
        expires = self._clock.now_ms() + round(seconds * 1000)
        claims = Claims(
            principal=principal, thread=thread, path=path, expires_at_ms=expires, terms=terms
        )
        said = _encode(dumps(claims))
        return f"{_PREFIX}{said}.{self._sign(said)}", expires

    def read(self, token: str) -> Claims:
        """
        Raises:
            Refused: the token was not made here, was changed, or has expired.
        """
        said, _, signature = token.removeprefix(_PREFIX).partition(".")
        if not hmac.compare_digest(self._sign(said).encode(), signature.encode()):
            raise unauthorized("the token is not known")
        claims = loads(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)), Claims)
        if claims.expires_at_ms <= self._clock.now_ms():
            raise unauthorized("the token has expired: make another one")
        return claims

    def _sign(self, said: str) -> str:
        secret = self._secret() or self._own
        return _encode(hmac.digest(secret.encode(), said.encode(), hashlib.sha256))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
