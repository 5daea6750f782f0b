"""Who may use a server: keys, sessions, and the record of what was done with them."""

from __future__ import annotations

from enum import StrEnum

from awaken.core.budget import Budget
from awaken.core.identity import Principal
from awaken.core.value import Value


class Role(StrEnum):
    """What a key may do.

    `invoke`: submit, send, cancel its own runs, read its own threads. `read`: see everything of the
    scope but requests and state. `decide`: answer tickets and cancel. `inspect`: see requests,
    state and messages for the model alone. `configure`: choose the model and its parameters for a
    run, and write messages as `system` or `assistant`. `admin`: all of this, delete, and see to
    keys and upkeep.
    """

    INVOKE = "invoke"
    READ = "read"
    DECIDE = "decide"
    INSPECT = "inspect"
    CONFIGURE = "configure"
    ADMIN = "admin"


class Terms(Value, frozen=True, kw_only=True):
    """What a key's entry says about its use: its rate, and the most that one of its runs may use.
    What is left out is as for all keys."""

    rate: float | None = None
    burst: int | None = None
    budget: Budget | None = None


NO_TERMS = Terms()


class KeyEntry(Value, frozen=True, kw_only=True):
    """A key as a file or a store has it: without its secret.

    `name` is what records say about who did something; two keys of one name are one principal, so
    that a key can be replaced by another. `agents` are the only agents it may use; `None`: all.
    """

    sha256: str
    name: str | None = None
    scope: str = ""
    roles: tuple[Role, ...] = ()
    agents: tuple[str, ...] | None = None
    rate: float | None = None
    burst: int | None = None
    budget: Budget | None = None

    @property
    def terms(self) -> Terms:
        return Terms(rate=self.rate, burst=self.burst, budget=self.budget)

    def principal(self, id: str) -> Principal:
        """Whom a request with the key of this id comes from."""
        return Principal(id=self.name or id, scope=self.scope, roles=self.roles, agents=self.agents)


class Door(StrEnum):
    """How a server finds out who someone is: not at all, by keys, or with code of its own."""

    OPEN = "open"
    KEYS = "keys"
    OWN = "own"


class Session(Value, frozen=True, kw_only=True):
    """Someone who is signed in, until when (in milliseconds).

    `id` is the SHA-256 of what they show. `door` is how they came in, `key` the id of the key that
    the session began with: it ends when that is revoked. `is_word` marks a link's one-time word,
    which begins a session.
    """

    id: str
    principal: Principal
    expires_at_ms: int
    door: Door
    key: str | None = None
    is_word: bool = False


class Deed(Value, frozen=True, kw_only=True):
    """One request: when (in milliseconds), who made it, from which address and session, what it
    asked for (`method` and the `route`, with the ids of its path in `on`), and its status."""

    at: int
    who: str
    scope: str
    method: str
    route: str
    on: dict[str, str]
    status: int
    address: str
    session: str | None = None
    request_id: str | None = None
