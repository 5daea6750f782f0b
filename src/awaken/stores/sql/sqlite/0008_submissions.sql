-- A submission is a run's record with status `created` and a command of kind `run`. Such a record has
-- no commit yet: its positions are 0 until the run starts.

-- Null: at once.
ALTER TABLE commands ADD COLUMN not_before INTEGER;

-- What a node claims next is found by what can go on, however many runs and commands only wait.
CREATE INDEX commands_by_kind ON commands (kind, thread);
CREATE INDEX runs_running ON runs (thread) WHERE status = 'running';
CREATE INDEX tickets_expiring ON tickets (expires_at) WHERE status = 'open' AND expires_at IS NOT NULL;

-- The keys of submissions with a digest of what was asked and the answer, kept for some days.
CREATE TABLE submission_keys (
    thread INTEGER NOT NULL,
    key    TEXT    NOT NULL,
    asked  TEXT    NOT NULL,
    run    TEXT    NOT NULL,
    cursor INTEGER NOT NULL,
    at_ms  INTEGER NOT NULL,
    PRIMARY KEY (thread, key)
) WITHOUT ROWID;
CREATE INDEX submission_keys_by_age ON submission_keys (at_ms);

-- Deleted threads are remembered as long, so that a late submission does not create them again.
CREATE TABLE deleted_threads (
    id    TEXT    PRIMARY KEY,
    at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX deleted_threads_by_age ON deleted_threads (at_ms);
