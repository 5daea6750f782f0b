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
from awaken.codec import Json, dumps, loads, to_json
from awaken.contract.profile import ProfileOwner, ProfileStore
from awaken.domain.principal import Principal
from awaken.errors import VersionConflict
from awaken.server.errors import unauthorized
from awaken.server.keys import NO_TERMS, Terms, bearer

WORD_SECONDS = 10 * 60
SESSION_SECONDS = 12 * 60 * 60
_PREFIX = "awc_"
_WORDS = ProfileOwner(agent="~words")
"""Whose entries the words of links are, by their digests. No agent has such a name."""


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
        store: where words, and sessions that were signed out, are written down for all nodes.
        secret: returns what signs tokens; nodes with the same secret accept each other's. If it
            returns `None`, tokens are good on this node only, while it lives.
        is_key: whether a key with this digest is still good.
    """

    def __init__(
        self,
        store: ProfileStore,
        secret: Callable[[], str | None] = lambda: None,
        is_key: Callable[[str], bool] = lambda digest: True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store, self._secret, self._is_key, self._clock = store, secret, is_key, clock
        self._own = secrets.token_hex(32)
        self._ended: dict[str, int] = {}

    # -- words ----------------------------------------------------------------------------------

    async def make_word(self, principal: Principal, like: Session | None = None) -> str:
        """A word that begins one session of this principal, once, within ten minutes, on any node.
        That session has the terms of `like`, and ends with the key of `like`."""
        word, now = secrets.token_urlsafe(32), self._clock.now_ms()
        meant = Session(
            session="",
            principal=principal,
            expires_at_ms=now + WORD_SECONDS * 1000,
            key=like.key if like is not None else None,
            terms=like.terms if like is not None else NO_TERMS,
        )
        for entry in await self._store.list(_WORDS):
            if entry.value is None or _meant(entry.value).expires_at_ms <= now:
                await self._store.delete(_WORDS, entry.key)
        await self._store.set(_WORDS, digest(word), to_json(meant))
        return word

    async def redeem(self, word: str) -> tuple[Session, str]:
        """Begin the session of a word, which no other session can begin with from now on. Returns
        the session and its token.

        Raises:
            Refused: the word was used before, is too old, or was not made here.
        """
        refused = unauthorized("the link was used before, or is older than ten minutes")
        entry = await self._store.get(_WORDS, digest(word))
        if entry is None or entry.value is None:
            raise refused
        meant = _meant(entry.value)
        if meant.expires_at_ms <= self._clock.now_ms():
            raise refused
        try:
            await self._store.set(_WORDS, entry.key, None, expected_version=entry.version)
        except VersionConflict:
            raise refused from None
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
        if session.session in self._ended:
            return
        if await self._store.get(_owner(session), session.session) is not None:
            self._ended[session.session] = session.expires_at_ms
            raise unauthorized("the session is over: sign in again")

    async def end(self, session: Session) -> None:
        """Refuse a session's token from now on, on every node with the same store."""
        now = self._clock.now_ms()
        self._ended = {id: until for id, until in self._ended.items() if until > now}
        self._ended[session.session] = session.expires_at_ms
        await self._store.set(_owner(session), session.session, session.expires_at_ms)
        for entry in await self._store.list(_owner(session)):
            if entry.value <= now:
                await self._store.delete(_owner(session), entry.key)

    def _sign(self, said: str) -> str:
        # Stream tokens are signed with the same secret: the name keeps the two apart.
        secret = self._secret() or self._own
        return _encode(hmac.digest(secret.encode(), b"session:" + said.encode(), hashlib.sha256))


def _meant(value: Json) -> Session:
    return msgspec.convert(value, Session)


def _owner(session: Session) -> ProfileOwner:
    """Whose entries the ended sessions of a tenant are. No agent has such a name."""
    return ProfileOwner(agent="~sessions", scope=session.principal.scope)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
