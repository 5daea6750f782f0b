-- A commit is one row with everything it added. Threads and runs have one small head row each.
--
-- `commits.id` is `threads.pk << 32 | position`, so a thread's commits lie together, are found
-- without a second index, and are deleted as one range. Positions count from 1 without gaps;
-- `first_seq` and `first_event` never decrease with them. Tables with long rows keep their rowid:
-- rows in a table WITHOUT ROWID spill into overflow pages far earlier.

CREATE TABLE threads (
    pk          INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    parent      TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    length      INTEGER NOT NULL DEFAULT 0, -- messages in the log
    events      INTEGER NOT NULL DEFAULT 0, -- durable events so far
    position    INTEGER NOT NULL DEFAULT 0, -- commits so far; 0: claimed, and not written yet
    snapshot    INTEGER NOT NULL DEFAULT 0, -- position of the last row in `snapshots`
    epoch       INTEGER NOT NULL DEFAULT 0,
    owner       TEXT,
    latest_run  TEXT,
    open_run    TEXT,
    active_run  TEXT,
    forked_from TEXT,
    forked_at   INTEGER
);
-- No index on `updated_at`: every commit would have to write one more page.
CREATE INDEX threads_by_parent ON threads (parent) WHERE parent IS NOT NULL;

-- Epochs are never reused: a thread created again under the id of a deleted one continues from here.
CREATE TABLE epochs (floor INTEGER NOT NULL);
INSERT INTO epochs (floor) VALUES (0);

CREATE TABLE runs (
    -- In the order of their first commits, and never used again: snapshots name runs by it.
    pk             INTEGER PRIMARY KEY AUTOINCREMENT,
    id             TEXT    NOT NULL UNIQUE,
    thread         INTEGER NOT NULL,
    agent          TEXT    NOT NULL,
    status         TEXT    NOT NULL,
    first_position INTEGER NOT NULL,
    last_position  INTEGER NOT NULL,
    record         BLOB    NOT NULL -- without state and without the ids of its messages
);
CREATE INDEX runs_by_thread ON runs (thread);
CREATE INDEX runs_by_agent ON runs (agent);
CREATE INDEX runs_open ON runs (thread) WHERE status <> 'done';

CREATE TABLE commits (
    id          INTEGER PRIMARY KEY,
    first_seq   INTEGER NOT NULL, -- of its first message, or of the next one if it has none
    first_event INTEGER NOT NULL, -- the same for events
    at_ms       INTEGER NOT NULL,
    run         INTEGER,          -- runs.pk; none in a fork, which has no runs of its own yet
    delta       BLOB    NOT NULL
);

CREATE TABLE snapshots (
    id    INTEGER PRIMARY KEY, -- as in commits: the state after that commit
    state BLOB    NOT NULL
);

CREATE TABLE tickets (
    pk         INTEGER PRIMARY KEY,
    thread     INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    ticket_id  TEXT    NOT NULL,
    call_id    TEXT    NOT NULL,
    run_id     TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    asked_at   INTEGER NOT NULL,
    expires_at INTEGER,
    record     BLOB    NOT NULL, -- `status` beside it is the one that counts
    UNIQUE (thread, key)
);
CREATE INDEX tickets_by_id ON tickets (thread, ticket_id);
CREATE INDEX tickets_by_call ON tickets (thread, call_id);
CREATE INDEX tickets_by_time ON tickets (asked_at);
CREATE INDEX tickets_by_run ON tickets (run_id);
CREATE INDEX tickets_open ON tickets (thread, run_id) WHERE status = 'open';

CREATE TABLE commands (
    id     INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: readers keep it as a cursor
    thread INTEGER NOT NULL,
    run_id TEXT,
    kind   TEXT    NOT NULL,
    body   BLOB    NOT NULL
);
CREATE INDEX commands_by_thread ON commands (thread);

CREATE TABLE profiles (
    owner      TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    value      BLOB    NOT NULL,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
);
