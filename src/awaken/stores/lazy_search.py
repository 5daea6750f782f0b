"""What stores have for searching, loaded when a search is first asked for."""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.stores.memory.search import MemorySearchIndex
    from awaken.stores.memory.search_heads import MemoryHeads
    from awaken.stores.postgres.search import PostgresSearchIndex
    from awaken.stores.postgres.search_heads import PostgresHeads
    from awaken.stores.sqlite.search import SqliteSearchIndex
    from awaken.stores.sqlite.search_heads import SqliteHeads

__all__ = [
    "MemoryHeads",
    "MemorySearchIndex",
    "PostgresHeads",
    "PostgresSearchIndex",
    "SqliteHeads",
    "SqliteSearchIndex",
]

lazy_names(
    __name__,
    {
        "awaken.stores.memory.search": "MemorySearchIndex",
        "awaken.stores.memory.search_heads": "MemoryHeads",
        "awaken.stores.postgres.search": "PostgresSearchIndex",
        "awaken.stores.postgres.search_heads": "PostgresHeads",
        "awaken.stores.sqlite.search": "SqliteSearchIndex",
        "awaken.stores.sqlite.search_heads": "SqliteHeads",
    },
)
