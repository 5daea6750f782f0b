-- Which spans of a thread's messages are out of view, and since which commit: those behind the position
-- `low` in the log, up to `high`. The log keeps them. In a table of its own, since every commit rewrites
-- the thread's head.

CREATE TABLE rewinds (
    thread   INTEGER NOT NULL,
    position INTEGER NOT NULL, -- of the commit that rewound the thread
    low      INTEGER NOT NULL,
    high     INTEGER NOT NULL,
    PRIMARY KEY (thread, position)
) WITHOUT ROWID;

-- The end user that a run works for. Records that are nested too deeply for SQLite are not found by it.
ALTER TABLE runs ADD COLUMN user_id TEXT;
UPDATE runs SET user_id = json_extract(CAST(record AS TEXT), '$.request.user')
WHERE CASE WHEN json_valid(CAST(record AS TEXT))
           THEN json_type(CAST(record AS TEXT), '$.request.user') = 'text' END;
CREATE INDEX runs_of_users ON runs (user_id) WHERE user_id IS NOT NULL;
