-- Commands that a thread takes once, by their keys, also when they are done: what comes twice is
-- known by its key, however much is unread. `command` is the id the first one got.

CREATE TABLE command_keys (
    thread  INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    command INTEGER NOT NULL,
    PRIMARY KEY (thread, key)
) WITHOUT ROWID;

-- What is unread was sent under the ids of its messages. A body may be nested more deeply than SQLite
-- reads JSON, and no file is given up for that.
INSERT OR IGNORE INTO command_keys (thread, key, command)
SELECT c.thread, json_extract(m.value, '$.id'), c.id
FROM commands AS c, json_each(
    CASE WHEN json_valid(CAST(c.body AS TEXT))
         THEN json_extract(CAST(c.body AS TEXT), '$.messages') END
) AS m
WHERE c.kind = 'messages' AND json_extract(m.value, '$.id') IS NOT NULL
ORDER BY c.id;

-- Threads that have something to send.
CREATE TABLE outboxes (thread INTEGER PRIMARY KEY);
