-- The keys of commands that a thread accepts once, kept also when the command is done: a repeated
-- command is recognised by its key. `command` is the id of the first one.

CREATE TABLE command_keys (
    thread  INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    command INTEGER NOT NULL,
    PRIMARY KEY (thread, key)
) WITHOUT ROWID;

-- For pending commands the keys are the ids of their messages. A body may be nested more deeply than
-- SQLite can read JSON; the migration must not fail on it.
INSERT OR IGNORE INTO command_keys (thread, key, command)
SELECT c.thread, json_extract(m.value, '$.id'), c.id
FROM commands AS c, json_each(
    CASE WHEN json_valid(CAST(c.body AS TEXT))
         THEN json_extract(CAST(c.body AS TEXT), '$.messages') END
) AS m
WHERE c.kind = 'messages' AND json_extract(m.value, '$.id') IS NOT NULL
ORDER BY c.id;

-- Threads with unsent messages.
CREATE TABLE outboxes (thread INTEGER PRIMARY KEY);
