"""The fixed SQL statements of the SQL stores; statements built per query are in the stores.

They are constants, so that a connection prepares each of them once. `?` stands for a parameter; a
dialect with another placeholder translates the texts when it loads them.
"""

from __future__ import annotations

# -- the file -----------------------------------------------------------------------------------

IDENTITY = """
SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
FROM pragma_application_id, pragma_user_version
"""

TABLES = (
    "blob_uses",
    "command_keys",
    "commands",
    "commits",
    "epochs",
    "outboxes",
    "profiles",
    "runs",
    "snapshots",
    "streams",
    "threads",
    "tickets",
)
# Everything other than plain tables and their indexes: views, triggers, virtual tables. Only the
# columns `type` and `sql` can be trusted: SQLite does not check the root page, and a crafted file
# may hold anything there. An index that SQLite made by itself has no SQL text.
STRANGE = """
SELECT type, name FROM sqlite_schema WHERE NOT coalesce(
    CASE type
        WHEN 'table' THEN sql GLOB 'CREATE TABLE *'
        WHEN 'index' THEN
            sql IS NULL OR sql GLOB 'CREATE INDEX *' OR sql GLOB 'CREATE UNIQUE INDEX *'
    END, 0
) LIMIT 1
"""

# -- one commit ---------------------------------------------------------------------------------

# Always one row; missing values are null. It holds everything a commit is checked against.
HEAD_AND_RUN = """
SELECT t.pk, t.parent, t.created_at, t.length, t.events, t.position, t.snapshot, t.epoch, t.owner,
       t.open_run, t.active_run, t.latest_run, r.pk, r.thread, r.status, r.agent, r.parent, r.kind
FROM (SELECT 1) LEFT JOIN threads AS t ON t.id = ? LEFT JOIN runs AS r ON r.id = ?
"""
ADD_THREAD = """
INSERT INTO threads (id, created_at, updated_at, epoch) SELECT ?, ?, ?, floor FROM epochs
"""
# No column in it is indexed, so it changes one page.
ADVANCE_THREAD = """
UPDATE threads SET created_at = ?, updated_at = ?, length = ?, events = ?, position = ?,
       snapshot = ?, owner = ?, latest_run = ?, open_run = ?, active_run = ?
WHERE pk = ?
"""
# The same for a commit in which a run starts, pauses or ends: it also sets `active_at`.
MOVE_THREAD = """
UPDATE threads SET created_at = ?, updated_at = ?, length = ?, events = ?, position = ?,
       snapshot = ?, owner = ?, latest_run = ?, open_run = ?, active_run = ?, active_at = ?
WHERE pk = ?
"""
SET_PARENT = "UPDATE threads SET parent = ? WHERE pk = ?"
ADD_COMMIT = """
INSERT INTO commits (id, first_seq, first_event, at_ms, run, delta) VALUES (?, ?, ?, ?, ?, ?)
"""
ADD_RUN = """
INSERT INTO runs (id, thread, first_position, last_position, record, status, agent, parent, kind)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Without and with the indexed columns, which most commits do not change.
ADVANCE_RUN = "UPDATE runs SET last_position = ?, record = ? WHERE pk = ?"
CHANGE_RUN = """
UPDATE runs SET last_position = ?, record = ?, status = ?, agent = ?, parent = ?, kind = ?
WHERE pk = ?
"""
DROP_CANCELS = """
DELETE FROM commands WHERE thread = ? AND kind = 'cancel' AND (run_id IS NULL OR run_id = ?)
"""
CLOSE_TICKETS = """
UPDATE tickets SET status = 'closed' WHERE status = 'open' AND thread = ? AND run_id = ?
"""
ACKNOWLEDGE = "DELETE FROM commands WHERE id = ? AND thread = ?"

# -- the stream log -----------------------------------------------------------------------------

ADD_STREAM_ENTRY = "INSERT INTO streams (thread, number, piece) VALUES (?, ?, ?)"
STREAM_LOG = "SELECT piece FROM streams WHERE thread = ? ORDER BY number"
DELETE_STREAM_LOG = "DELETE FROM streams WHERE thread = ?"

# -- ownership ----------------------------------------------------------------------------------

OWNER = "SELECT pk, owner, epoch, position FROM threads WHERE id = ?"
TAKE = "UPDATE threads SET owner = ?, epoch = ? WHERE pk = ?"
RELEASE = "UPDATE threads SET owner = NULL WHERE id = ? AND owner = ? AND epoch = ?"

# -- threads ------------------------------------------------------------------------------------

# Readers do not see a thread that was claimed and never written (position 0).
THREAD_COLUMNS = """
pk, id, parent, created_at, updated_at, length, events, position, snapshot, owner, latest_run,
open_run, active_run, forked_from, forked_at, active_at
"""
THREAD = f"SELECT {THREAD_COLUMNS} FROM threads WHERE id = ? AND position > 0"
THREAD_BY_PK = f"SELECT {THREAD_COLUMNS} FROM threads WHERE pk = ?"
PARENT = "SELECT parent FROM threads WHERE id = ? AND position > 0"
# The number of threads whose id is in a range, counted up to a limit.
COUNT_BETWEEN = """
SELECT count(*) FROM (SELECT 1 FROM threads WHERE id >= ? AND id < ? LIMIT ?)
"""
CHILDREN = f"SELECT {THREAD_COLUMNS} FROM threads WHERE parent = ?"
DETACH = "UPDATE threads SET parent = NULL, updated_at = ? WHERE parent = ?"

# -- commits ------------------------------------------------------------------------------------

FIRST_SEQ = "SELECT first_seq FROM commits WHERE id = ?"
FIRST_EVENT = "SELECT first_event FROM commits WHERE id = ?"
COMMITS = """
SELECT id, first_seq, first_event, run, delta FROM commits WHERE id BETWEEN ? AND ? ORDER BY id
"""
COMMITS_OF_RUN = """
SELECT id, first_seq, first_event, run, delta FROM commits
WHERE id BETWEEN ? AND ? AND run = ? ORDER BY id
"""
ADD_SNAPSHOT = "INSERT INTO snapshots (id, state) VALUES (?, ?)"
SNAPSHOTS = "SELECT id, state FROM snapshots WHERE id BETWEEN ? AND ? ORDER BY id DESC"

# -- runs ---------------------------------------------------------------------------------------

RUN_COLUMNS = "pk, thread, status, first_position, last_position, record"
RUN = f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?"
RUN_STATUS = "SELECT status FROM runs WHERE pk = ?"
RUN_IS_OVER = "SELECT 1 FROM runs WHERE id = ? AND thread = ? AND status = 'done'"
RUN_BEGIN = "SELECT first_position FROM runs WHERE pk = ?"
# The plus keeps SQLite from scanning all runs in the order of `pk` instead of using the index.
OPEN_RUNS = """
SELECT r.id, r.status, r.record, t.owner, t.pk
FROM runs AS r JOIN threads AS t ON t.pk = r.thread WHERE r.status <> 'done' ORDER BY +r.pk
"""
OPEN_RUNS_OF = """
SELECT r.id, r.status, r.record, t.owner, t.pk
FROM runs AS r JOIN threads AS t ON t.pk = r.thread
WHERE r.status <> 'done' AND t.id = ? ORDER BY +r.pk
"""

# The threads with open runs at or beneath a thread: from each open run up to that thread.
OPEN_TREE = f"""
WITH RECURSIVE above(pk, at) AS (
    SELECT t.pk, t.id FROM runs AS r JOIN threads AS t ON t.pk = r.thread
    WHERE r.status <> 'done' AND t.open_run IS NOT NULL
    UNION
    SELECT a.pk, t.parent FROM above AS a JOIN threads AS t ON t.id = a.at
    WHERE t.parent IS NOT NULL AND a.at <> ?
)
SELECT {THREAD_COLUMNS} FROM threads WHERE pk IN (SELECT pk FROM above WHERE at = ?)
ORDER BY created_at, id
"""
BENEATH = """
WITH RECURSIVE beneath(pk, id) AS (
    SELECT pk, id FROM threads WHERE parent = ?
    UNION SELECT t.pk, t.id FROM beneath AS b JOIN threads AS t ON t.parent = b.id
)
SELECT pk FROM beneath
"""

# -- tickets and commands -----------------------------------------------------------------------

TICKET = "SELECT pk, status FROM tickets WHERE thread = ? AND key = ?"
# A key is unique; ticket ids and call ids may repeat.
TICKETS_NAMED = """
SELECT pk, status, record FROM tickets
WHERE (thread = ? AND key = ?) OR (thread = ? AND ticket_id = ?) OR (thread = ? AND call_id = ?)
ORDER BY asked_at, pk
"""
OPEN_TICKETS = """
SELECT pk, status, record FROM tickets WHERE status = 'open' AND thread = ? ORDER BY asked_at, pk
"""
# The run above a delegate asks its question too, unless that run is a task. If a record is nested
# more deeply than SQLite can read JSON, its ticket is listed twice.
NOT_ASKED_ABOVE = """
NOT EXISTS (
    SELECT 1 FROM runs AS r JOIN runs AS p ON p.id = r.parent
    WHERE r.id = tickets.run_id AND p.kind <> 'task'
      AND CASE WHEN json_valid(CAST(r.record AS TEXT))
               THEN json_extract(CAST(r.record AS TEXT), '$.request.parent_tool_call_id') END
          IS NOT NULL
)
"""
ADD_TICKET = """
INSERT INTO tickets
       (ticket_id, call_id, run_id, status, asked_at, expires_at, record, thread, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
CHANGE_TICKET = """
UPDATE tickets SET ticket_id = ?, call_id = ?, run_id = ?, status = ?, asked_at = ?,
       expires_at = ?, record = ?
WHERE pk = ?
"""
ANSWER_TICKET = "UPDATE tickets SET status = 'answered', record = ? WHERE thread = ? AND key = ?"
HAS_EXPIRED_TICKET = """
SELECT 1 FROM tickets WHERE status = 'open' AND thread = ? AND run_id = ? AND expires_at < ?
"""
ADD_COMMAND = "INSERT INTO commands (thread, run_id, kind, body) VALUES (?, ?, ?, ?)"
KNOWN_KEY = """
SELECT c.id FROM command_keys AS k LEFT JOIN commands AS c ON c.id = k.command
WHERE k.thread = ? AND k.key = ?
"""
ADD_KEY = "INSERT INTO command_keys (thread, key, command) VALUES (?, ?, ?)"
COMMANDS = "SELECT id, body FROM commands WHERE thread = ? AND id > ? ORDER BY id"
IS_PENDING = "SELECT 1 FROM commands WHERE id = ?"
COMMANDS_AFTER = "SELECT id, body FROM commands WHERE id > ? ORDER BY id"
HAS_CANCEL = """
SELECT 1 FROM commands WHERE thread = ? AND kind = 'cancel' AND (run_id IS NULL OR run_id = ?)
"""
HAS_COMMAND = "SELECT 1 FROM commands WHERE thread = ? AND (run_id IS NULL OR run_id = ?)"

ADD_OUTBOX = "INSERT OR IGNORE INTO outboxes (thread) VALUES (?)"
DROP_OUTBOX = "DELETE FROM outboxes WHERE thread = ?"
# SQLite keeps the order of a cross join: from the few outboxes to their threads.
OUTBOXES = """
SELECT t.id, t.owner FROM outboxes AS o CROSS JOIN threads AS t ON t.pk = o.thread ORDER BY +t.id
"""

# -- upkeep -------------------------------------------------------------------------------------

# The lower half of a commit's id is its position.
COPY_COMMITS = """
INSERT INTO commits (id, first_seq, first_event, at_ms, run, delta)
SELECT id - ? + ?, first_seq, first_event, at_ms, NULL, delta FROM commits
WHERE id BETWEEN ? AND ?
"""
COPY_SNAPSHOTS = """
INSERT INTO snapshots (id, state) SELECT id - ? + ?, state FROM snapshots WHERE id BETWEEN ? AND ?
"""
FORKED = """
UPDATE threads SET created_at = ?, updated_at = ?, length = ?, events = ?, position = ?,
       snapshot = ?, forked_from = ?, forked_at = ?, active_at = ?
WHERE pk = ?
"""
SIZE_OF_COMMITS = """
SELECT count(*), coalesce(sum(length(delta)), 0) FROM commits WHERE id BETWEEN ? AND ?
"""
DELETE_COMMITS = "DELETE FROM commits WHERE id BETWEEN ? AND ?"
DELETE_SNAPSHOTS = "DELETE FROM snapshots WHERE id BETWEEN ? AND ?"
DELETE_RUNS = "DELETE FROM runs WHERE thread = ?"
DELETE_TICKETS = "DELETE FROM tickets WHERE thread = ?"
DELETE_COMMANDS = "DELETE FROM commands WHERE thread = ?"
DELETE_KEYS = "DELETE FROM command_keys WHERE thread = ?"
# The key of a tree's budget book ends with the id of its root run.
DELETE_BOOKS = """
DELETE FROM profiles WHERE owner = ? AND key IN (SELECT ? || id FROM runs WHERE thread = ?)
"""
DELETE_THREAD = "DELETE FROM threads WHERE pk = ?"
RAISE_EPOCHS = """
UPDATE epochs SET floor = t.epoch FROM threads AS t WHERE t.pk = ? AND t.epoch > floor
"""
OLD_THREADS = f"""
SELECT {THREAD_COLUMNS} FROM threads WHERE updated_at < ? AND open_run IS NULL
"""
CHILD_IDS = "SELECT id FROM threads WHERE parent = ?"
BENEATH_OPEN = """
WITH RECURSIVE beneath(id) AS (
    SELECT c.id FROM threads AS p JOIN threads AS c ON c.parent = p.id WHERE p.open_run IS NOT NULL
    UNION SELECT c.id FROM beneath AS b JOIN threads AS c ON c.parent = b.id
)
SELECT id FROM beneath
"""
OPEN_ABOVE = """
WITH RECURSIVE above(id, parent, open_run) AS (
    SELECT id, parent, open_run FROM threads WHERE id = ?
    UNION SELECT t.id, t.parent, t.open_run FROM above AS a JOIN threads AS t ON t.id = a.parent
)
SELECT id, open_run FROM above WHERE open_run IS NOT NULL AND id <> ? LIMIT 1
"""

# -- blobs --------------------------------------------------------------------------------------

# The first commit that uses a blob is the one that counts: a fork from there on needs the blob.
ADD_BLOB_USE = "INSERT OR IGNORE INTO blob_uses (thread, blob, position) VALUES (?, ?, ?)"
COPY_BLOB_USES = """
INSERT INTO blob_uses (thread, blob, position)
SELECT ?, blob, position FROM blob_uses WHERE thread = ? AND position <= ?
"""
IS_BLOB_USED = "SELECT 1 FROM blob_uses WHERE blob = ? LIMIT 1"
IS_BLOB_USED_BY = """
SELECT 1 FROM blob_uses JOIN threads ON threads.pk = blob_uses.thread
WHERE blob_uses.blob = ? AND threads.id = ?
"""
DELETE_BLOB_USES = "DELETE FROM blob_uses WHERE thread = ?"

# -- profiles -----------------------------------------------------------------------------------

PROFILE = "SELECT key, value, version, updated_at FROM profiles WHERE owner = ? AND key = ?"
PROFILES = "SELECT key, value, version, updated_at FROM profiles WHERE owner = ? ORDER BY key"
SET_PROFILE = """
INSERT INTO profiles (owner, key, value, version, updated_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (owner, key) DO UPDATE
SET value = excluded.value, version = excluded.version, updated_at = excluded.updated_at
"""
DELETE_PROFILE = "DELETE FROM profiles WHERE owner = ? AND key = ?"
CLEAR_PROFILES = "DELETE FROM profiles WHERE owner = ?"
