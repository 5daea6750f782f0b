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

CHECK = "SELECT floor FROM epochs"

TABLES = (
    "audit",
    "blob_uses",
    "command_keys",
    "commands",
    "commits",
    "deleted_threads",
    "epochs",
    "keys",
    "outboxes",
    "profiles",
    "rewinds",
    "runs",
    "secrets",
    "sessions",
    "snapshots",
    "streams",
    "thread_metadata",
    "submission_keys",
    "text_uses",
    "texts",
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
       t.open_run, t.active_run, t.latest_run, r.pk, r.thread, r.status, r.agent, r.parent, r.kind,
       t.scope
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
PLACE_OF = "SELECT scope, family FROM threads WHERE id = ?"
PLACE_THREAD = "UPDATE threads SET parent = ?, scope = ?, family = ? WHERE pk = ?"
ADD_COMMIT = """
INSERT INTO commits (id, first_seq, first_event, at_ms, run, delta) VALUES (?, ?, ?, ?, ?, ?)
"""
ADD_RUN = """
INSERT INTO runs (id, thread, scope, user_id, first_position, last_position, record, updated_at_ms,
                  status, agent, parent, kind)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Without and with the indexed columns, which most commits do not change.
ADVANCE_RUN = "UPDATE runs SET last_position = ?, record = ?, updated_at_ms = ? WHERE pk = ?"
# The first commit of a submitted run, whose positions were 0, also sets its first position.
CHANGE_RUN = """
UPDATE runs SET first_position = CASE first_position WHEN 0 THEN ?1 ELSE first_position END,
       last_position = ?1, record = ?2, updated_at_ms = ?3, status = ?4, agent = ?5,
       parent = ?6, kind = ?7
WHERE pk = ?8
"""
DROP_CANCELS = """
DELETE FROM commands WHERE thread = ? AND kind = 'cancel' AND (run_id IS NULL OR run_id = ?)
"""
CANCELS = """
SELECT body FROM commands WHERE thread = ? AND kind = 'cancel' AND (run_id IS NULL OR run_id = ?)
ORDER BY id
"""
SET_RECORD = "UPDATE runs SET record = ? WHERE id = ?"
CLOSE_TICKETS = """
UPDATE tickets SET status = 'closed' WHERE status = 'open' AND thread = ? AND run_id = ?
"""
ACKNOWLEDGE = "DELETE FROM commands WHERE id = ? AND thread = ?"

# -- rewinds ------------------------------------------------------------------------------------

ADD_REWIND = "INSERT INTO rewinds (thread, position, low, high) VALUES (?, ?, ?, ?)"
REWINDS = "SELECT low, high FROM rewinds WHERE thread = ? ORDER BY position"
COPY_REWINDS = """
INSERT INTO rewinds (thread, position, low, high)
SELECT ?, position, low, high FROM rewinds WHERE thread = ? AND position <= ?
"""
DELETE_REWINDS = "DELETE FROM rewinds WHERE thread = ?"

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
open_run, active_run, forked_from, forked_at, active_at, scope, family,
(SELECT record FROM thread_metadata WHERE thread_metadata.thread = threads.pk)
"""
THREAD = f"SELECT {THREAD_COLUMNS} FROM threads WHERE id = ? AND position > 0"
THREAD_BY_PK = f"SELECT {THREAD_COLUMNS} FROM threads WHERE pk = ?"
PARENT = "SELECT parent FROM threads WHERE id = ? AND position > 0"
# The number of threads whose id is in a range, counted up to a limit.
COUNT_BETWEEN = """
SELECT count(*) FROM (SELECT 1 FROM threads WHERE id >= ? AND id < ? LIMIT ?)
"""
SET_METADATA = """
INSERT INTO thread_metadata (thread, user_id, labels, record) VALUES (?, ?, ?, ?)
ON CONFLICT (thread) DO UPDATE
SET user_id = excluded.user_id, labels = excluded.labels, record = excluded.record
"""
DELETE_METADATA = "DELETE FROM thread_metadata WHERE thread = ?"
OF_USER = "pk IN (SELECT thread FROM thread_metadata WHERE user_id = ?)"
WITH_LABEL = """
pk IN (SELECT m.thread FROM thread_metadata AS m, json_each(m.labels) AS l
       WHERE l.key = ? AND (? IS NULL OR l.value = ?))
"""
WITH_OPEN_RUN = "pk IN (SELECT thread FROM runs WHERE status <> 'done')"
WITH_LATEST_RUN = """
EXISTS (SELECT 1 FROM runs AS r WHERE r.id = threads.latest_run
        AND (? IS NULL OR r.status = ?) AND (? IS NULL OR r.agent = ?))
"""
# Runs, counted up to a limit.
COUNT_ENDED_AFTER = """
SELECT count(*) FROM
  (SELECT 1 FROM runs INDEXED BY runs_ended WHERE status = 'done' AND updated_at_ms > ? LIMIT ?)
"""
COUNT_OF_AGENT = "SELECT count(*) FROM (SELECT 1 FROM runs WHERE agent = ? LIMIT ?)"
WRITTEN_AFTER = """
pk IN (SELECT pk FROM runs INDEXED BY runs_ended WHERE status = 'done' AND updated_at_ms > ?
       UNION ALL
       SELECT pk FROM runs INDEXED BY runs_open WHERE status <> 'done' AND updated_at_ms > ?)
"""
WITH_RUN_OF_AGENT = "pk IN (SELECT thread FROM runs WHERE agent = ?)"
# Each scope is found with one look into the index, however many threads or tickets it has.
SCOPES = """
WITH RECURSIVE scopes(scope) AS (
    SELECT min(scope) FROM {table}
    UNION ALL SELECT (SELECT min(scope) FROM {table} WHERE scope > scopes.scope)
    FROM scopes WHERE scope IS NOT NULL
)
SELECT scope FROM scopes WHERE scope IS NOT NULL
"""
SCOPES_OF_THREADS = SCOPES.format(
    table="(SELECT scope FROM threads INDEXED BY threads_by_activity WHERE active_at IS NOT NULL)"
)
SCOPES_OF_TICKETS = SCOPES.format(table="tickets")
CHILDREN = f"SELECT {THREAD_COLUMNS} FROM threads WHERE parent = ?"
DETACH = "UPDATE threads SET parent = NULL, updated_at = ? WHERE parent = ?"

# -- commits ------------------------------------------------------------------------------------

FIRST_SEQ = "SELECT first_seq FROM commits WHERE id = ?"
FIRST_EVENT = "SELECT first_event FROM commits WHERE id = ?"
COMMITS = """
SELECT id, first_seq, first_event, at_ms, run, delta FROM commits
WHERE id BETWEEN ? AND ? ORDER BY id
"""
COMMITS_OF_RUN = """
SELECT id, first_seq, first_event, at_ms, run, delta FROM commits
WHERE id BETWEEN ? AND ? AND run = ? ORDER BY id
"""
COMMITS_BACK = """
SELECT id, first_seq, first_event, at_ms, run, delta FROM commits
WHERE id BETWEEN ? AND ? ORDER BY id DESC
"""
ADD_SNAPSHOT = "INSERT INTO snapshots (id, state) VALUES (?, ?)"
SNAPSHOTS = "SELECT id, state FROM snapshots WHERE id BETWEEN ? AND ? ORDER BY id DESC"

# -- runs ---------------------------------------------------------------------------------------

RUN_COLUMNS = "pk, id, thread, status, first_position, last_position, record"
RUN = f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?"
RUN_STATUS = "SELECT status FROM runs WHERE pk = ?"
RUN_IS_OVER = "SELECT 1 FROM runs WHERE id = ? AND thread = ? AND status = 'done'"
RUN_BEGIN = "SELECT first_position FROM runs WHERE pk = ?"
# The plus keeps SQLite from scanning all runs in the order of `pk` instead of using the index.
OPEN_RUNS = """
SELECT r.id, r.status, r.record, t.owner, t.pk
FROM runs AS r JOIN threads AS t ON t.pk = r.thread
WHERE r.status <> 'done' AND r.status <> 'created' ORDER BY +r.pk
"""
OPEN_RUNS_OF = """
SELECT r.id, r.status, r.record, t.owner, t.pk
FROM runs AS r JOIN threads AS t ON t.pk = r.thread
WHERE r.status <> 'done' AND r.status <> 'created' AND t.id = ? ORDER BY +r.pk
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
SELECT key, status, record FROM tickets
WHERE (thread = ? AND key = ?) OR (thread = ? AND ticket_id = ?) OR (thread = ? AND call_id = ?)
ORDER BY asked_at, pk
"""
OPEN_TICKETS = """
SELECT key, status, record FROM tickets WHERE status = 'open' AND thread = ? ORDER BY asked_at, pk
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
       (ticket_id, call_id, run_id, status, asked_at, expires_at, record, thread, scope, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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
COMMANDS = "SELECT id, body FROM commands WHERE thread = ? ORDER BY id"
COMMAND_IDS = "SELECT id FROM commands WHERE thread = ? ORDER BY id"
COMMAND = "SELECT body FROM commands WHERE id = ?"
IS_PENDING = "SELECT 1 FROM commands WHERE id = ?"
WAITING = """
SELECT c.id, t.id, t.owner FROM commands AS c JOIN threads AS t ON t.pk = c.thread
WHERE c.id > ? AND (c.not_before IS NULL OR c.not_before <= ?)
"""
HAS_CANCEL = """
SELECT 1 FROM commands WHERE thread = ? AND kind = 'cancel' AND (run_id IS NULL OR run_id = ?)
"""
HAS_COMMAND = """
SELECT 1 FROM commands WHERE thread = ? AND (run_id IS NULL OR run_id = ?)
AND id NOT IN (SELECT value FROM json_each(?))
"""
# Rows that a worker could not decode, to see whether they were mended.
RECORDS_OF = "SELECT id, record FROM runs WHERE id IN (SELECT value FROM json_each(?))"
BODIES_OF = """
SELECT c.id, c.body, r.record FROM commands AS c LEFT JOIN runs AS r ON r.id = c.run_id
WHERE c.id IN (SELECT value FROM json_each(?))
"""
CALLS_OF_RUN = """
SELECT id, body FROM commands WHERE thread = ? AND kind IN ('cancel', 'decisions')
AND (run_id IS NULL OR run_id = ?)
"""
HAS_ENDED_PARENT = """
SELECT 1 FROM runs AS r JOIN runs AS p ON p.id = r.parent WHERE r.id = ? AND p.status = 'done'
"""

# -- submissions --------------------------------------------------------------------------------

ADD_SUBMISSION = """
INSERT INTO commands (thread, run_id, kind, body, not_before) VALUES (?, ?, 'run', ?, ?)
"""
SUBMISSION = """
SELECT id, body FROM commands WHERE kind = 'run' AND thread = ? AND run_id = ? ORDER BY id LIMIT 1
"""
SUBMITTED_RUNS = "SELECT run_id FROM commands WHERE kind = 'run' AND thread = ? ORDER BY id"
WITHDRAW = "DELETE FROM commands WHERE kind = 'run' AND thread = ? AND run_id = ?"
SUBMISSION_KEY = """
SELECT asked, run, cursor, at_ms FROM submission_keys WHERE thread = ? AND key = ?
"""
ADD_SUBMISSION_KEY = """
INSERT OR REPLACE INTO submission_keys (thread, key, asked, run, cursor, at_ms)
VALUES (?, ?, ?, ?, ?, ?)
"""
DROP_OLD_SUBMISSION_KEYS = "DELETE FROM submission_keys WHERE at_ms < ?"
BEGIN_THREAD = """
UPDATE threads SET created_at = ?, updated_at = ?, active_at = ?, position = 1 WHERE pk = ?
"""
# Runs of the agents that can continue: running; waiting, and answered, cancelled or expired;
# submitted, due, and first in a thread without an open run. Each part is found by an index. The
# last parameter has the commands that cannot be read, which are passed over.
NEXT_RUNS = """
SELECT r.id, r.agent, r.record, t.owner, r.status, t.pk
FROM runs AS r JOIN threads AS t ON t.pk = r.thread
WHERE r.kind = 'agent' AND r.pk IN (
    SELECT pk FROM runs WHERE status = 'running'
    UNION ALL
    SELECT w.pk FROM commands AS c JOIN threads AS o ON o.pk = c.thread
    JOIN runs AS w ON w.id = o.open_run
    WHERE c.kind IN ('cancel', 'decisions') AND w.status = 'waiting'
      AND (c.run_id IS NULL OR c.run_id = w.id)
      AND c.id NOT IN (SELECT value FROM json_each(?3))
    UNION ALL
    SELECT w.pk FROM tickets AS k JOIN runs AS w ON w.id = k.run_id
    WHERE k.status = 'open' AND k.expires_at IS NOT NULL AND k.expires_at < ?1
      AND w.status = 'waiting'
    UNION ALL
    SELECT n.pk FROM (
        SELECT thread, min(id) AS id FROM commands
        WHERE kind = 'run' AND (not_before IS NULL OR not_before <= ?2)
          AND id NOT IN (SELECT value FROM json_each(?3)) GROUP BY thread
    ) AS q
    JOIN commands AS c ON c.id = q.id JOIN threads AS o ON o.pk = q.thread
    JOIN runs AS n ON n.id = c.run_id
    WHERE o.open_run IS NULL AND n.status = 'created'
)
ORDER BY r.pk
"""

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
       snapshot = ?, forked_from = ?, forked_at = ?, active_at = ?, scope = ?, family = ?
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
DELETE_SUBMISSION_KEYS = "DELETE FROM submission_keys WHERE thread = ?"
NOTE_DELETED = "INSERT OR REPLACE INTO deleted_threads (id, at_ms) VALUES (?, ?)"
DELETED_AT = "SELECT at_ms FROM deleted_threads WHERE id = ?"
FORGET_DELETED = "DELETE FROM deleted_threads WHERE at_ms < ?"
# The key of a tree's budget ledger ends with the id of its root run.
DELETE_BOOKS = """
DELETE FROM profiles WHERE owner = ? AND key IN (SELECT ? || id FROM runs WHERE thread = ?)
"""
DELETE_THREAD = "DELETE FROM threads WHERE pk = ?"
RAISE_EPOCHS = """
UPDATE epochs SET floor = t.epoch FROM threads AS t WHERE t.pk = ? AND t.epoch > floor
"""
OLD_THREADS = f"""
SELECT {THREAD_COLUMNS} FROM threads WHERE updated_at < ? AND open_run IS NULL
AND NOT EXISTS (SELECT 1 FROM commands AS c WHERE c.kind = 'run' AND c.thread = threads.pk)
"""
OLD_THREAD = f"{OLD_THREADS} AND pk = ?"
PKS_OF_SCOPE = "SELECT pk FROM threads WHERE scope = ? ORDER BY pk DESC"
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

# -- kept requests ------------------------------------------------------------------------------

ADD_TEXT = "INSERT OR IGNORE INTO texts (digest, body) VALUES (?, ?)"
ADD_TEXT_USE = "INSERT OR IGNORE INTO text_uses (thread, digest, position) VALUES (?, ?, ?)"
COPY_TEXT_USES = """
INSERT INTO text_uses (thread, digest, position)
SELECT ?, digest, position FROM text_uses WHERE thread = ? AND position <= ?
"""
DELETE_TEXTS_OF = """
DELETE FROM texts WHERE digest IN (
    SELECT mine.digest FROM text_uses AS mine WHERE mine.thread = ? AND NOT EXISTS (
        SELECT 1 FROM text_uses AS other
        WHERE other.digest = mine.digest AND other.thread <> mine.thread
    )
)
"""
DELETE_TEXT_USES = "DELETE FROM text_uses WHERE thread = ?"
TEXT = "SELECT body FROM texts WHERE digest = ?"
# A message has no index by its id: the rows that hold the id are found by looking into all of the
# thread's, the latest first.
COMMITS_NAMING = """
SELECT id, first_seq, first_event, at_ms, run, delta FROM commits
WHERE id BETWEEN ? AND ? AND instr(delta, ?) ORDER BY id DESC
"""

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
# The owners of a scope are those that begin with its name and a slash; `0` comes after the slash.
CLEAR_PROFILES_OF_SCOPE = "DELETE FROM profiles WHERE owner >= ? || '/' AND owner < ? || '0'"
