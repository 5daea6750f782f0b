"""The SQLite store: durable, in one file, for one or a few processes on one machine."""

from awaken.stores.sqlite.maintenance import Compacted
from awaken.stores.sqlite.profiles import SqliteProfiles
from awaken.stores.sqlite.store import SqliteStore

__all__ = ["Compacted", "SqliteProfiles", "SqliteStore"]
