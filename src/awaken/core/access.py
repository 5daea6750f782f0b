"""Access to a server: API keys, sign-in sessions, and audit entries of requests."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from awaken.core.budget import Budget
from awaken.core.identity import Principal
from awaken.core.value import Value


class KeyRole(StrEnum):
    """What requests with a key may do.

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
    """The limits in a key's entry: its request rate, and the budget of each of its runs. A limit
    that is `None` is that of all keys."""

    rate: float | None = None
    burst: int | None = None
    budget: Budget | None = None


NO_TERMS = Terms()


class KeyEntry(Value, frozen=True, kw_only=True):
    """A key as a file or a store keeps it: without its secret.

    `name` is the principal id in records of its requests; two keys of one name are one principal,
    so that a key can be replaced by another. `agents` are the only agents it may use; `None`: all.
    """

    sha256: str
    name: str | None = None
    scope: str = ""
    roles: tuple[KeyRole, ...] = ()
    agents: tuple[str, ...] | None = None
    rate: float | None = None
    burst: int | None = None
    budget: Budget | None = None

    @property
    def terms(self) -> Terms:
        return Terms(rate=self.rate, burst=self.burst, budget=self.budget)

    def principal(self, id: str) -> Principal:
        """The principal of requests with the key of this id."""
        return Principal(id=self.name or id, scope=self.scope, roles=self.roles, agents=self.agents)


class AuthMode(StrEnum):
    """How a server authenticates clients: not at all, by API keys, or with the user's own code."""

    OPEN = "open"
    KEYS = "keys"
    OWN = "own"


class Session(Value, frozen=True, kw_only=True):
    """A sign-in session of a principal, until `expires_at_ms`.

    `id` is the SHA-256 of the token that the client sends. `auth_mode` is how the client signed in,
    `key` the id of the API key that the session began with: it ends when that key is revoked.
    `is_word` marks the one-time word of a link, which begins a session.
    """

    id: str
    principal: Principal
    expires_at_ms: int
    auth_mode: AuthMode = msgspec.field(name="door")
    key: str | None = None
    is_word: bool = False


class Deed(Value, frozen=True, kw_only=True):
    """The audit entry of one request.

    `at` is its time in milliseconds, `who` the id of its principal. The request is `method` and
    `route`, with the ids of its path in `on`; `status` is that of the response.
    """

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
