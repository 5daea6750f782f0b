"""Writing the search index in SQL: heads, ownership, entries with their texts and tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from secrets import token_hex
from typing import Any

from awaken.codec import dumps_text, loads
from awaken.core.search.index import EntryUpdate, IndexedHead, IndexState, ThreadUpdate
from awaken.core.search.query import END_WORDS
from awaken.core.search.usage import day_of, load_zone
from awaken.stores.sql.search_sums import RunSums, add_sums, amounts_of, sums_of_row
from awaken.stores.sql.search_tables import (
    DOCS,
    KEY_BITS,
    KEYS,
    MAX_DOC,
    MAX_MS,
    META,
    TABLES,
    Dialect,
    ManyRows,
    Work,
    clean,
    load_zone_name,
)

_SHOWN_QUESTION = 200


# -- heads and ownership ------------------------------------------------------------------------


def load_heads(dialect: Dialect, ids: Sequence[str]) -> Work[Mapping[str, IndexedHead]]:
    where = dialect.like_ids.format("thread")
    rows = yield f"SELECT {_HEAD} FROM search_heads WHERE {where}", (dialect.ids(ids),)
    return {row[0]: _head(row) for row in rows}


def list_heads(after: str, until: str | None) -> Work[Mapping[str, IndexedHead]]:
    text, values = f"SELECT {_HEAD} FROM search_heads WHERE thread > ?", [after]
    if until is not None:
        text, values = f"{text} AND thread <= ?", [after, until]
    rows = yield text, values
    return {row[0]: _head(row) for row in rows}


_HEAD = "thread, created_at, commits, events, revision, tags"


def _head(row: Sequence[Any]) -> IndexedHead:
    return IndexedHead(created_at=row[1], commits=row[2], events=row[3], revision=row[4])


def claim(owner: str, now_ms: int, seconds: float, state: IndexState) -> Work[bool]:
    rows = yield META, ("owner",)
    held = loads(rows[0][0], dict[str, Any]) if rows else {}
    if held.get("owner", owner) != owner and held["until"] > now_ms:
        return False
    told = {
        "owner": owner,
        "until": now_ms + round(seconds * 1000),
        "seen_ms": now_ms,
        "pending": state.pending,
        "behind_ms": state.behind_ms,
        "threads": state.threads if state.is_complete else held.get("threads", state.threads),
        "is_complete": state.is_complete or bool(held.get("is_complete")),
    }
    yield from _set_meta("owner", dumps_text(told))
    return True


def release(owner: str) -> Work[None]:
    rows = yield META, ("owner",)
    held = loads(rows[0][0], dict[str, Any]) if rows else {}
    if held.get("owner") == owner:
        yield from _set_meta("owner", dumps_text({**held, "until": 0}))


def load_state(now_ms: int) -> Work[IndexState]:
    rows = yield META, ("owner",)
    held = loads(rows[0][0], dict[str, Any]) if rows else {}
    zone = yield from load_zone_name()
    made = yield META, ("made",)
    return IndexState(
        made=made[0][0] if made else "",
        zone=zone,
        threads=held.get("threads", 0),
        owner=held["owner"] if held.get("until", 0) > now_ms else None,
        seen_ms=held.get("seen_ms", 0),
        pending=held.get("pending", 0),
        behind_ms=held.get("behind_ms", 0),
        is_complete=held.get("is_complete", False),
    )


def _set_meta(name: str, value: str) -> Work[None]:
    yield (
        "INSERT INTO search_meta (name, value) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def create(dialect: Dialect, version: str, zone: str) -> Work[None]:
    """Make the tables of an empty index."""
    for text in (*TABLES, *dialect.tables):
        yield text.format(keyed=dialect.keyed, collate=dialect.collate), ()
    yield from _set_meta("version", version)
    yield from _set_meta("zone", zone)
    yield from _set_meta("made", token_hex(8))


# -- writing --------------------------------------------------------------------------------------


def apply(dialect: Dialect, updates: Sequence[ThreadUpdate]) -> Work[int]:
    """Write those of the updates that fit; see `ThreadUpdate`."""
    zone = load_zone((yield from load_zone_name()))
    count = 0
    for update in updates:
        rows = yield f"SELECT {_HEAD} FROM search_heads WHERE thread = ?", (update.thread_id,)
        if (_head(rows[0]) if rows else None) != update.before:
            continue
        count += 1
        known = loads(rows[0][5], list[str]) if rows and not update.is_reset else []
        if update.is_reset:
            yield from _remove(dialect, update.thread_id)
        tags = known if update.tags is None else list(update.tags)
        for entry in update.entries:
            yield from _write_entry(dialect, update, entry, tags, zone)
        if tags != known:
            yield from _replace_thread_tags(update.thread_id, tags)
        after = update.after
        counts = (after.created_at, after.commits, after.events, after.revision, dumps_text(tags))
        yield _SET_HEAD, (update.thread_id, *counts)
    return count


_SET_HEAD = """
INSERT INTO search_heads (thread, created_at, commits, events, revision, tags)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (thread) DO UPDATE SET created_at = excluded.created_at, commits = excluded.commits,
    events = excluded.events, revision = excluded.revision, tags = excluded.tags
"""


def _replace_thread_tags(thread: str, tags: Sequence[str]) -> Work[None]:
    keys = yield "SELECT key FROM search_entries WHERE thread = ?", (thread,)
    for (key,) in keys:
        yield "DELETE FROM search_tags WHERE key = ? AND origin = 1", (key,)
        yield from _add_tags(key, tags, origin=1)


def _add_tags(key: int, tags: Sequence[str], origin: int = 0) -> Work[None]:
    if tags:
        yield _ADD_TAG, ManyRows((clean(tag), key, origin) for tag in tags)


_ADD_TAG = """
INSERT INTO search_tags (tag, key, origin) VALUES (?, ?, ?)
ON CONFLICT (tag, key, origin) DO NOTHING
"""


def _write_entry(
    dialect: Dialect,
    update: ThreadUpdate,
    entry: EntryUpdate,
    thread_tags: Sequence[str],
    zone: tzinfo,
) -> Work[None]:
    id = entry.id_in(update.thread_id)
    found = yield f"SELECT {_SUMMED} FROM search_entries WHERE id = ?", (id,)
    if found:
        key, old = found[0][0], found[0]
        started, day = old[1], old[2]
        question = "" if entry.is_title else old[-1]
        question = question or clean(entry.question)[:_SHOWN_QUESTION]
    else:
        started = min(max(entry.started_ms, 0), MAX_MS)
        key, old, day = (yield from _new_key(started)), None, day_of(started, zone)
        question = clean(entry.question)[:_SHOWN_QUESTION]
    names = [
        clean(name) for name in (entry.agent, entry.model or (old[5] if old else ""), entry.user)
    ]
    counts = (entry.input_tokens, entry.output_tokens, entry.cost)
    values = (
        *(key, id, update.thread_id, entry.run_id, update.scope, *names, entry.status, started),
        *(entry.updated_ms, day, *counts, question),
    )
    yield _SET_ENTRY, values
    if entry.run_id is not None:
        agent, model, user = names
        amounts = amounts_of(entry.status, *counts)
        new = RunSums(day, update.scope, agent, model, user, amounts)
        yield from add_sums(new, sums_of_row(old) if old else None)
    if old and old[7] != entry.status:
        yield _DROP_STATUS, (f"s:{old[7]}", key)
    status = [f"s:{entry.status}"] if entry.status else []
    if entry.status in END_WORDS:
        status.append("s:done")
    yield from _add_tags(key, [*entry.tags, *status])
    if not found:
        yield from _add_tags(key, thread_tags, origin=1)
    if entry.is_title:
        yield from _delete_docs(dialect, key, update.scope)
    if entry.texts:
        yield from _add_texts(dialect, key, update.scope, entry.texts)


_DROP_STATUS = "DELETE FROM search_tags WHERE tag = ? AND key = ? AND origin = 0"
_SUMMED = (
    "key, started_ms, day, scope, agent, model, user_id, status, input_tokens, output_tokens, "
    "cost, question"
)
_SET_ENTRY = """
INSERT INTO search_entries (key, id, thread, run, scope, agent, model, user_id, status, started_ms,
    updated_ms, day, input_tokens, output_tokens, cost, question)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET agent = excluded.agent, model = excluded.model,
    user_id = excluded.user_id, status = excluded.status, updated_ms = excluded.updated_ms,
    input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    cost = excluded.cost, question = excluded.question
"""


def _new_key(started_ms: int) -> Work[int]:
    """A free key for an entry that began at this time."""
    first = started_ms << KEY_BITS
    while True:
        rows = yield _LAST_KEY, (first, first + KEYS)
        last: int | None = rows[0][0]
        if last is None:
            return first
        if last + DOCS < first + KEYS:
            return last + DOCS
        first += KEYS  # so many entries of one millisecond go on in the next one


_LAST_KEY = "SELECT max(key) FROM search_entries WHERE key >= ? AND key < ?"


def _add_texts(dialect: Dialect, key: int, scope: str, texts: Sequence[str]) -> Work[None]:
    """Add texts to the last part of an entry, and to further ones."""
    rows = yield _LAST_DOC, (key, key + DOCS)
    doc, body = rows[0] if rows else (key, None)
    replaced: str | None = body
    body, is_changed = body or "", False
    for text in (clean(text) for text in texts):
        if body and _size(body) + _size(text) > MAX_DOC:
            if is_changed:
                yield from dialect.write_doc(doc, scope, body, replaced)
            if doc + 1 >= key + DOCS:
                return  # the texts of an entry are indexed up to here
            doc, body, replaced = doc + 1, "", None
        body, is_changed = f"{body}\n{text}" if body else text, True
    if is_changed:
        yield from dialect.write_doc(doc, scope, body, replaced)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


_LAST_DOC = "SELECT key, body FROM search_docs WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1"


# -- removing -------------------------------------------------------------------------------------


def remove(dialect: Dialect, ids: Sequence[str]) -> Work[None]:
    for thread in ids:
        yield from _remove(dialect, thread)
        yield "DELETE FROM search_heads WHERE thread = ?", (thread,)


def _remove(dialect: Dialect, thread: str) -> Work[None]:
    """Remove the entries of a thread, and take its runs out of the sums."""
    rows = yield f"SELECT run, {_SUMMED} FROM search_entries WHERE thread = ?", (thread,)
    for run, *entry in rows:
        key, scope = entry[0], entry[3]
        if run is not None:
            yield from add_sums(None, sums_of_row(entry))
        yield from _delete_docs(dialect, key, scope)
        yield "DELETE FROM search_tags WHERE key = ?", (key,)
    yield "DELETE FROM search_entries WHERE thread = ?", (thread,)


def _delete_docs(dialect: Dialect, key: int, scope: str) -> Work[None]:
    docs = yield _DOCS_OF, (key, key + DOCS)
    for doc, body in docs:
        yield from dialect.delete_doc(doc, scope, body)


_DOCS_OF = "SELECT key, body FROM search_docs WHERE key >= ? AND key < ?"
