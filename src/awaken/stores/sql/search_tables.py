"""The tables of the search index in SQL, and what its dialects do differently.

Each operation on the index is a generator: it yields a statement with its values and is sent the
rows, so that one text serves a store that blocks its thread and one that awaits. `?` stands for a
value.

- `search_entries`: runs, and threads apart from their runs. The key orders them by the time they
  began: milliseconds, then 10 bits for those of one millisecond, then 10 bits for their texts.
- `search_docs`: the texts of an entry, in parts of up to `MAX_DOC` bytes, each under a key of
  its own behind the entry's. The dialect keeps an index of their words.
- `search_tags`: what filters ask for, by entry; `origin` is 1 for the tags of the whole thread.
- `search_sums`, `search_user_days`, `search_user_sums`: what runs have used by day:
  without the user, with the user but without agent and model, and with all of these.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeVar

from awaken.codec import clean_text
from awaken.core.search.query import SearchTerms

T = TypeVar("T")
Statement = tuple[str, Sequence[Any]]
Work = Generator[Statement, Sequence[Any], T]


class ManyRows(list[tuple[Any, ...]]):
    """The values of a statement that is run once for each of them; it gives no rows."""


MAX_DOC = 48 * 1024
"""Bytes of one part of an entry's text. Words of a query have to stand in one part. Postgres counts
the words of a text up to 16,383."""
DOC_BITS, KEY_BITS = 10, 20
DOCS, KEYS = 1 << DOC_BITS, 1 << KEY_BITS
MAX_MS = 1 << 42

TABLES = (
    """CREATE TABLE search_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)""",
    """CREATE TABLE search_heads (
        thread TEXT {collate} PRIMARY KEY, created_at BIGINT NOT NULL, commits BIGINT NOT NULL,
        events BIGINT NOT NULL, revision BIGINT NOT NULL, tags TEXT NOT NULL
    )""",
    """CREATE TABLE search_entries (
        key BIGINT PRIMARY KEY, id TEXT NOT NULL UNIQUE, thread TEXT NOT NULL, run TEXT,
        scope TEXT NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL, user_id TEXT NOT NULL,
        status TEXT NOT NULL, started_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL,
        day TEXT NOT NULL, input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL,
        cost BIGINT, question TEXT NOT NULL
    )""",
    "CREATE INDEX search_entries_thread ON search_entries (thread, key)",
    "CREATE INDEX search_entries_scope ON search_entries (scope, key)",
    """CREATE TABLE search_tags (
        tag TEXT NOT NULL, key BIGINT NOT NULL, origin SMALLINT NOT NULL,
        PRIMARY KEY (tag, key, origin)
    ){keyed}""",
    "CREATE INDEX search_tags_key ON search_tags (key)",
    *[
        f"""CREATE TABLE {name} (
            day TEXT NOT NULL, scope TEXT NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL,
            user_id TEXT NOT NULL, runs BIGINT NOT NULL, failed BIGINT NOT NULL,
            input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, cost BIGINT NOT NULL,
            unpriced BIGINT NOT NULL, PRIMARY KEY ({key})
        ){{keyed}}"""
        for name, key in (
            ("search_sums", "day, scope, agent, model, user_id"),
            ("search_user_days", "user_id, day, scope, agent, model"),
            ("search_user_sums", "user_id, day, scope, agent, model"),
        )
    ],
)
NAMES = ("meta", "heads", "entries", "docs", "tags", "sums", "user_days", "user_sums")


class Dialect(Protocol):
    """What the two databases do differently: the index of words."""

    tables: Sequence[str]
    """The statements that make `search_docs` and the index of its words."""
    keyed: str
    collate: str
    like_ids: str
    """A condition that a column is one of a list, for `format`."""
    doc_key: str
    """The key of a part in the index of words."""
    cross_join: str
    """Joins two tables, if it can be said, beginning with the first."""
    docs_first: str
    """Joins the parts of texts with their entries, beginning with the parts."""
    entries_first: str
    """The same, beginning with the entries."""
    fits: str
    """The condition that a part has the words; its value is made by `match`."""

    has_key: str
    """The condition that a part is one of a list."""

    def list_keys(self, terms: SearchTerms) -> Work[Sequence[int] | None]:
        """The keys of the parts that have the words, if they are few; `None` if they may be many,
        or if the database finds out by itself which index is best."""
        ...

    def ids(self, ids: Sequence[str]) -> Any:
        """The value of `like_ids`."""
        ...

    def match(self, terms: SearchTerms, scope: str | None) -> str: ...

    def write_doc(self, key: int, scope: str, body: str, replaced: str | None) -> Work[None]: ...

    def delete_doc(self, key: int, scope: str, body: str) -> Work[None]: ...


def clean(text: str) -> str:
    """The text without what a database does not take."""
    return clean_text(text).replace("\0", " ")


def load_zone_name() -> Work[str]:
    rows = yield META, ("zone",)
    return rows[0][0] if rows else "UTC"


META = "SELECT value FROM search_meta WHERE name = ?"


def where_clause(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
