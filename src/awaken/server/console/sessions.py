"""Sessions: how the console's page proves who looks at it.

A session begins with a key, or with a one-time word from the fragment of an address, which no
server or proxy sees. From then on the page sends a token as `Authorization`. There are no cookies:
browsers send those of one port to every other port of the same machine.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import dumps, loads
from awaken.contract.profile import ProfileOwner, ProfileStore
from awaken.domain.principal import Principal
from awaken.server.errors import unauthorized
from awaken.server.keys import NO_TERMS, Terms, bearer

WORD_SECONDS = 10 * 60
SESSION_SECONDS = 12 * 60 * 60
_PREFIX = "awc_"
_MOST_WORDS = 1_000


class Session(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who looks, until when (in milliseconds), and on what terms. `key` is the digest of the key
    that the session began with: it ends when the key is revoked."""

    session: str
    principal: Principal
    expires_at_ms: int
    key: str | None = None
    terms: Terms = NO_TERMS


class Sessions:
    """Makes words and sessions, and reads the tokens of sessions.

    Args:
        secret: returns what signs tokens; nodes with the same secret accept each other's. If it
            returns `None`, tokens are good on this node only, while it lives.
        is_key: whether a key with this digest is still good.
        ended: where sessions that were signed out are written down, for all nodes.
    """

    def __init__(
        self,
        secret: Callable[[], str | None] = lambda: None,
        is_key: Callable[[str], bool] = lambda digest: True,
        ended: ProfileStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._secret, self._is_key, self._clock = secret, is_key, clock
        self._own = secrets.token_hex(32)
        self._words: dict[str, Session] = {}
        self._ended: dict[str, int] = {}
        self._shared = ended

    # -- words ----------------------------------------------------------------------------------

    def make_word(self, principal: Principal, like: Session | None = None) -> str:
        """A word that begins one session of this principal, once, within ten minutes. That session
        has the terms of `like`, and ends with the key of `like`."""
        word = secrets.token_urlsafe(32)
        if len(self._words) >= _MOST_WORDS:
            del self._words[next(iter(self._words))]
        self._words[digest(word)] = Session(
            session="",
            principal=principal,
            expires_at_ms=self._clock.now_ms() + WORD_SECONDS * 1000,
            key=like.key if like is not None else None,
            terms=like.terms if like is not None else NO_TERMS,
        )
        return word

    def redeem(self, word: str) -> tuple[Session, str]:
        """Begin the session of a word, which no other session can begin with from now on. Returns
        the session and its token.

        Raises:
            Refused: the word was used before, is too old, or was not made here.
        """
        meant = self._words.pop(digest(word), None)
        if meant is None or meant.expires_at_ms <= self._clock.now_ms():
            raise unauthorized("the link was used before, or is older than ten minutes")
        return self.begin(meant.principal, key=meant.key, terms=meant.terms)

    # -- tokens ---------------------------------------------------------------------------------

    def begin(
        self, principal: Principal, *, key: str | None = None, terms: Terms = NO_TERMS
    ) -> tuple[Session, str]:
        """A new session and its token; `key` is the digest of the key that it ends with."""
        session = Session(
            session=secrets.token_hex(8),
            principal=principal,
            expires_at_ms=self._clock.now_ms() + SESSION_SECONDS * 1000,
            key=key,
            terms=terms,
        )
        said = _encode(dumps(session))
        return session, f"{_PREFIX}{said}.{self._sign(said)}"

    def find(self, head: Mapping[str, str]) -> Session | None:
        """The session of a request, by its headers; `None` if it came without one.

        Raises:
            Refused: the token was not made here, was changed, or its session is over.
        """
        given = bearer(head)
        if given is None or not given.startswith(_PREFIX):
            return None
        said, _, signature = given.removeprefix(_PREFIX).partition(".")
        if not hmac.compare_digest(self._sign(said).encode(), signature.encode()):
            raise unauthorized("the session is not known: sign in again")
        session = loads(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)), Session)
        is_over = session.session in self._ended or session.expires_at_ms <= self._clock.now_ms()
        if is_over or (session.key is not None and not self._is_key(session.key)):
            raise unauthorized("the session is over: sign in again")
        return session

    async def check(self, session: Session) -> None:
        """
        Raises:
            Refused: the session was signed out, on this node or on another.
        """
        if self._shared is None or session.session in self._ended:
            return
        if await self._shared.get(_owner(session), session.session) is not None:
            self._ended[session.session] = session.expires_at_ms
            raise unauthorized("the session is over: sign in again")

    async def end(self, session: Session) -> None:
        """Refuse a session's token from now on, on every node with the same store."""
        now = self._clock.now_ms()
        self._ended = {id: until for id, until in self._ended.items() if until > now}
        self._ended[session.session] = session.expires_at_ms
        if self._shared is None:
            return
        await self._shared.set(_owner(session), session.session, session.expires_at_ms)
        for entry in await self._shared.list(_owner(session)):
            if entry.value <= now:
                await self._shared.delete(_owner(session), entry.key)

    def _sign(self, said: str) -> str:
        # Stream tokens are signed with the same secret: the name keeps the two apart.
        secret = self._secret() or self._own
        return _encode(hmac.digest(secret.encode(), b"session:" + said.encode(), hashlib.sha256))


def _owner(session: Session) -> ProfileOwner:
    """Whose entries the ended sessions of a tenant are. No agent has such a name."""
    return ProfileOwner(agent="~sessions", scope=session.principal.scope)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
