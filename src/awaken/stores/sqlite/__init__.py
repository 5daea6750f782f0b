"""The SQLite store: durable, in one file, for one or a few processes on one machine."""

from awaken.stores.sqlite.profile import SqliteProfiles
from awaken.stores.sqlite.store import SqliteStore
from awaken.stores.sqlite.upkeep import Compacted

__all__ = ["Compacted", "SqliteProfiles", "SqliteStore"]
