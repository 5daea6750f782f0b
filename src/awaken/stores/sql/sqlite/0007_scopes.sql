-- The scope is the tenant a thread belongs to, the family is the tree it is part of: what its root was
-- called, without the scope. Both are given to a thread by its first commit. Ids of earlier versions
-- are not taken apart: their threads are in the default scope, and the family is the id of the root.

ALTER TABLE threads ADD COLUMN scope TEXT NOT NULL DEFAULT '';
ALTER TABLE threads ADD COLUMN family TEXT NOT NULL DEFAULT '';
UPDATE threads SET family = id WHERE position > 0;

WITH RECURSIVE tree(pk, id, root) AS (
    SELECT pk, id, id FROM threads WHERE parent IS NULL
    UNION SELECT c.pk, c.id, t.root FROM tree AS t JOIN threads AS c ON c.parent = t.id
)
UPDATE threads SET family = tree.root FROM tree WHERE threads.pk = tree.pk AND threads.position > 0;

-- One index holds the threads of a scope in the order of lists, roots apart from others. A list of all
-- scopes, or of roots and others, is merged from its parts. Until now roots were in two indexes.
DROP INDEX threads_by_activity;
DROP INDEX roots_by_activity;
CREATE INDEX threads_by_activity ON threads (scope, parent IS NULL, active_at DESC, id)
WHERE active_at IS NOT NULL;

ALTER TABLE runs ADD COLUMN scope TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_by_scope ON runs (scope);

ALTER TABLE tickets ADD COLUMN scope TEXT NOT NULL DEFAULT '';
DROP INDEX tickets_by_time;
CREATE INDEX tickets_by_time ON tickets (scope, asked_at);

-- When a run was last written. Not in an index: every commit would have to write one more page.
ALTER TABLE runs ADD COLUMN updated_at_ms INTEGER NOT NULL DEFAULT 0;

-- Records have their times also in milliseconds. They are changed as text, as before, and those that are
-- nested too deeply for SQLite keep their times in seconds alone.
UPDATE runs
SET updated_at_ms = 1000 * json_extract(CAST(record AS TEXT), '$.updated_at'),
    record = CAST(
        '{"created_at_ms":' || (1000 * json_extract(CAST(record AS TEXT), '$.created_at'))
        || ',"updated_at_ms":' || (1000 * json_extract(CAST(record AS TEXT), '$.updated_at'))
        || coalesce(
            ',"started_at_ms":' || (1000 * json_extract(CAST(record AS TEXT), '$.started_at')), '')
        || coalesce(
            ',"finished_at_ms":' || (1000 * json_extract(CAST(record AS TEXT), '$.finished_at')), '')
        || ',' || substr(CAST(record AS TEXT), 2) AS BLOB)
WHERE CASE WHEN json_valid(CAST(record AS TEXT))
           THEN json_type(CAST(record AS TEXT), '$.created_at') = 'integer'
            AND json_type(CAST(record AS TEXT), '$.updated_at') = 'integer' END;

-- What people wrote about a thread, apart from its head, which every commit rewrites. `labels` is a
-- JSON object of texts; `record` holds everything and may be nested more deeply than SQLite reads JSON.
CREATE TABLE thread_metadata (
    thread  INTEGER PRIMARY KEY,
    user_id TEXT,
    labels  TEXT,
    record  BLOB NOT NULL
);
CREATE INDEX threads_of_users ON thread_metadata (user_id) WHERE user_id IS NOT NULL;
