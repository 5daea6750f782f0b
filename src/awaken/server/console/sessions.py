"""Sessions: the console's page authenticates its requests by one.

A session begins with a key, or with a one-time word from the fragment of an address, which no
server or proxy sees. From then on the page sends a token as `Authorization`. There are no cookies:
browsers send those of one port to every other port of the same machine.

The store has each session, by a hash of its token, so every node can check it and sees when it has
ended.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.access import NO_TERMS, AuthMode, Session, Terms
from awaken.core.access_store import Access
from awaken.core.identity import Principal
from awaken.server.errors import authentication_error
from awaken.server.keys import Keys, bearer

WORD_SECONDS = 10 * 60
SESSION_SECONDS = 12 * 60 * 60
_PREFIX = "awc_"
_MOST_WORDS = 1_000
_OVER = "the session is over: sign in again"


class Sessions:
    """Makes words and sessions, and finds the sessions of requests.

    Args:
        access: where sessions are stored, for all nodes.
        auth_mode: how this server authenticates people. A session that began with another setting,
            before the server was started with keys, say, is not valid.
        keys: the keys that sessions depend on, with `AuthMode.KEYS`.
    """

    def __init__(
        self,
        access: Access,
        auth_mode: AuthMode,
        keys: Keys | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._access, self._auth_mode, self._keys, self._clock = access, auth_mode, keys, clock
        self._words: dict[str, Session] = {}

    # -- words ----------------------------------------------------------------------------------

    def make_word(self, principal: Principal) -> str:
        """A word that begins one session of this principal, once, within ten minutes, at this node:
        for the address that a server prints of itself."""
        word = secrets.token_urlsafe(32)
        if len(self._words) >= _MOST_WORDS:
            del self._words[next(iter(self._words))]
        session = self._session(word, principal, None, WORD_SECONDS)
        self._words[session.id] = session
        return word

    async def share_word(self, principal: Principal, key: str | None) -> str:
        """A word like that, valid at every node. The session ends with the key of this id."""
        word = secrets.token_urlsafe(32)
        session = self._session(word, principal, key, WORD_SECONDS)
        shared = msgspec.structs.replace(session, is_word=True)
        await self._access.begin_session(shared, now_ms=self._clock.now_ms())
        return word

    async def redeem(self, word: str) -> tuple[Session, str]:
        """Begin the session of a word, which cannot be used again. Returns the session and its
        token.

        Raises:
            HttpRefusal: the word was used before, is too old, or was not made here.
        """
        id = digest(word)
        session = self._words.pop(id, None)
        if session is None and not word.startswith(_PREFIX):
            session = await self._access.end_session(id)
        if session is None or session.auth_mode != self._auth_mode or self._is_expired(session):
            raise authentication_error("the link was used before, or is older than ten minutes")
        return await self.begin(session.principal, key=session.key)

    # -- tokens ---------------------------------------------------------------------------------

    async def begin(self, principal: Principal, *, key: str | None = None) -> tuple[Session, str]:
        """A new session and its token; `key` is the id of the key that it ends with."""
        token = _PREFIX + secrets.token_urlsafe(32)
        session = self._session(token, principal, key, SESSION_SECONDS)
        await self._access.begin_session(session, now_ms=self._clock.now_ms())
        return session, token

    async def find(self, head: Mapping[str, str]) -> tuple[Session, Terms] | None:
        """The session of a request, by its headers, and the terms of its key; `None` if it came
        without one.

        Raises:
            HttpRefusal: the token is not known, or its session is over.
        """
        token = bearer(head)
        if token is None or not token.startswith(_PREFIX):
            return None
        found = await self.find_by_id(digest(token))
        if found is None:
            raise authentication_error(_OVER)
        return found

    async def find_by_id(self, id: str) -> tuple[Session, Terms] | None:
        """The session and its terms, if it has not ended. Its principal and roles are those that
        its key has now."""
        session = await self._access.find_session(id)
        if session is None or session.is_word or session.auth_mode != self._auth_mode:
            return None
        if self._is_expired(session):
            return None
        if self._keys is None or session.key is None:
            return session, NO_TERMS
        entry = await self._keys.find(session.key)
        if entry is None:
            return None
        return msgspec.structs.replace(session, principal=entry.principal(session.key)), entry.terms

    async def end(self, session: Session) -> None:
        """Refuse a session's token from now on, on every node."""
        await self._access.end_session(session.id)

    def _session(self, shown: str, principal: Principal, key: str | None, seconds: int) -> Session:
        return Session(
            id=digest(shown),
            principal=principal,
            expires_at_ms=self._clock.now_ms() + seconds * 1000,
            auth_mode=self._auth_mode,
            key=key,
        )

    def _is_expired(self, session: Session) -> bool:
        return session.expires_at_ms <= self._clock.now_ms()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
