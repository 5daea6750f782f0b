"""The roles of keys."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a key may do.

    `invoke`: submit, send, cancel its own runs, read its own threads. `read`: see everything of the
    scope but requests and state. `decide`: answer tickets and cancel. `inspect`: see requests and
    state. `admin`: all of this, delete, and see to keys and upkeep.
    """

    INVOKE = "invoke"
    READ = "read"
    DECIDE = "decide"
    INSPECT = "inspect"
    ADMIN = "admin"
