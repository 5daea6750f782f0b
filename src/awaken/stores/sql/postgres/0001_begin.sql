-- A commit is one row with everything it added. Threads and runs have one small head row each, which a
-- commit rewrites in place: none of the columns that every commit changes is in an index, and pages
-- have room for the next version of a row (`fillfactor`). Names are compared byte by byte ("C").

-- One row for each process that has the store open. Its owner is alive until `lease_until`, by the clock
-- of Postgres. `held_since` is when it last had to begin again, after it had registered or lapsed.
CREATE TABLE nodes (
    id          int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host        text        NOT NULL,
    pid         int         NOT NULL,
    started_at  timestamptz NOT NULL,
    held_since  timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    ttl         interval    NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE threads (
    pk          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          text COLLATE "C" NOT NULL UNIQUE,
    parent      text COLLATE "C",
    scope       text COLLATE "C" NOT NULL DEFAULT '',
    family      text COLLATE "C" NOT NULL DEFAULT '',
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    active_at   bigint,                   -- when a run last started, paused or ended; null until the first commit
    length      int    NOT NULL DEFAULT 0, -- messages in the log
    events      int    NOT NULL DEFAULT 0, -- durable events so far
    position    int    NOT NULL DEFAULT 0, -- commits so far; 0: claimed, and not written yet
    snapshot    int    NOT NULL DEFAULT 0, -- position of the last row in `snapshots`
    epoch       bigint NOT NULL DEFAULT 0,
    owner       int,                      -- nodes.id
    latest_run  text COLLATE "C",
    open_run    text COLLATE "C",
    active_run  text COLLATE "C",
    forked_from text COLLATE "C",
    forked_at   int
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);
-- Lists of all scopes, of one, and of its roots. `active_at` moves a few times a run.
CREATE INDEX threads_by_activity ON threads (active_at DESC, id) WHERE active_at IS NOT NULL;
CREATE INDEX threads_of_scope ON threads (scope, active_at DESC, id) WHERE active_at IS NOT NULL;
CREATE INDEX roots_of_scope ON threads (scope, active_at DESC, id)
WHERE active_at IS NOT NULL AND parent IS NULL;
CREATE INDEX children_by_activity ON threads (parent, active_at DESC) WHERE parent IS NOT NULL;
CREATE INDEX threads_by_owner ON threads (owner) WHERE owner IS NOT NULL;

-- What people wrote about a thread. They may write anything, also what Postgres does not take as text:
-- so user ids and labels are bytes. `labels` has each name, and each name with its value.
CREATE TABLE thread_metadata (
    thread  bigint PRIMARY KEY,
    user_id bytea,
    labels  bytea[],
    record  bytea NOT NULL
);
-- A hash index takes values of any length.
CREATE INDEX threads_of_users ON thread_metadata USING hash (user_id);

-- Epochs are never reused: a thread created again under the id of a deleted one continues from here.
CREATE TABLE epochs (floor bigint NOT NULL);
INSERT INTO epochs (floor) VALUES (0);

CREATE TABLE runs (
    -- In the order of their first commits, and never used again: snapshots name runs by it.
    pk             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             text COLLATE "C" NOT NULL UNIQUE,
    thread         bigint NOT NULL,
    scope          text COLLATE "C" NOT NULL DEFAULT '',
    agent          text COLLATE "C" NOT NULL,
    parent         text COLLATE "C",
    kind           text   NOT NULL,
    status         text   NOT NULL,
    user_id        bytea,
    delegated      bool   NOT NULL, -- another run's call started it
    suspect        bool   NOT NULL, -- it was taken over before, without progress
    first_position int    NOT NULL, -- 0: submitted, and not started
    last_position  int    NOT NULL,
    updated_at_ms  bigint NOT NULL,
    changed_at     bigint NOT NULL, -- `updated_at_ms` of the commit that changed the status, or of a later one when done
    cancelled_by   text COLLATE "C",
    record         bytea  NOT NULL  -- without state, without the ids of its messages, without `cancelled_by`
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX runs_by_thread ON runs (thread);
CREATE INDEX runs_by_scope ON runs (scope, agent, pk);
CREATE INDEX runs_by_agent ON runs (agent, pk);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_of_users ON runs USING hash (user_id);
CREATE INDEX runs_open ON runs (status, thread) WHERE status <> 'done';
CREATE INDEX runs_ended ON runs (changed_at) WHERE status = 'done';
CREATE INDEX runs_of_tasks ON runs (pk) WHERE kind = 'task';

-- Sixteen parts, so that vacuum and indexes of one of them stay small.
CREATE TABLE commits (
    thread      bigint NOT NULL,
    position    int    NOT NULL,
    first_seq   int    NOT NULL, -- of its first message, or of the next one if it has none
    first_event int    NOT NULL, -- the same for events
    at_ms       bigint NOT NULL,
    run         bigint,          -- runs.pk; none in a fork, which has no runs of its own yet
    delta       bytea  NOT NULL,
    PRIMARY KEY (thread, position)
) PARTITION BY HASH (thread);
DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format(
            'CREATE TABLE commits_%s PARTITION OF commits FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
            part, part);
    END LOOP;
END $$;

CREATE TABLE snapshots (
    thread   bigint NOT NULL,
    position int    NOT NULL,
    state    bytea  NOT NULL,
    PRIMARY KEY (thread, position)
);

-- Which spans of a thread's messages are out of view, and since which commit.
CREATE TABLE rewinds (
    thread   bigint NOT NULL,
    position int    NOT NULL,
    low      int    NOT NULL,
    high     int    NOT NULL,
    PRIMARY KEY (thread, position)
);

CREATE TABLE tickets (
    pk         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread     bigint NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    ticket_id  text COLLATE "C" NOT NULL,
    call_id    text COLLATE "C" NOT NULL,
    run_id     text COLLATE "C" NOT NULL,
    status     text   NOT NULL,
    asked_at   bigint NOT NULL,
    expires_at bigint,
    record     bytea  NOT NULL, -- `status` beside it is the one that counts
    UNIQUE (thread, key)
);
CREATE INDEX tickets_by_time ON tickets (scope, asked_at, pk);
CREATE INDEX tickets_by_run ON tickets (run_id);
CREATE INDEX tickets_open ON tickets (thread, run_id) WHERE status = 'open';
CREATE INDEX tickets_expiring ON tickets (expires_at) WHERE status = 'open' AND expires_at IS NOT NULL;

CREATE TABLE commands (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread     bigint NOT NULL,
    run_id     text COLLATE "C",
    kind       text   NOT NULL,
    sent_by    text COLLATE "C",
    not_before bigint, -- null: at once
    body       bytea  NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX commands_by_thread ON commands (thread);
CREATE INDEX commands_by_kind ON commands (kind, thread);

-- The keys of commands that a thread accepts once, kept also when the command is done.
CREATE TABLE command_keys (
    thread  bigint NOT NULL,
    key     text COLLATE "C" NOT NULL,
    command bigint NOT NULL,
    PRIMARY KEY (thread, key)
);

-- The keys of submissions with a digest of what was asked and the answer, kept for some days.
CREATE TABLE submission_keys (
    thread bigint NOT NULL,
    key    text COLLATE "C" NOT NULL,
    asked  text   NOT NULL,
    run    text COLLATE "C" NOT NULL,
    cursor int    NOT NULL,
    at_ms  bigint NOT NULL,
    PRIMARY KEY (thread, key)
);
CREATE INDEX submission_keys_by_age ON submission_keys (at_ms);

CREATE TABLE deleted_threads (
    id    text COLLATE "C" PRIMARY KEY,
    at_ms bigint NOT NULL
);
CREATE INDEX deleted_threads_by_age ON deleted_threads (at_ms);

CREATE TABLE streams (
    thread bigint NOT NULL,
    number int    NOT NULL,
    piece  bytea  NOT NULL,
    PRIMARY KEY (thread, number)
);

-- Threads with unsent messages.
CREATE TABLE outboxes (thread bigint PRIMARY KEY);

-- What models were asked: the texts that kept requests refer to, and which commits use them.
CREATE TABLE texts (
    digest bytea PRIMARY KEY,
    body   bytea NOT NULL
);
CREATE TABLE text_uses (
    thread   bigint NOT NULL,
    digest   bytea  NOT NULL,
    position int    NOT NULL,
    PRIMARY KEY (thread, digest)
);
CREATE INDEX uses_of_texts ON text_uses (digest);

CREATE TABLE profiles (
    owner      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    value      bytea  NOT NULL,
    version    int    NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (owner, key)
);

-- A blob is written part by part under a number of its own, and gets its row when it is whole.
CREATE TABLE blob_uploads (
    pk       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    begun_at bigint NOT NULL
);
CREATE TABLE blob_parts (
    upload bigint NOT NULL,
    number int    NOT NULL,
    part   bytea  NOT NULL,
    PRIMARY KEY (upload, number)
);
ALTER TABLE blob_parts ALTER COLUMN part SET STORAGE EXTERNAL; -- mostly compressed already
CREATE TABLE blobs (
    id         text COLLATE "C" PRIMARY KEY,
    scope      text COLLATE "C" NOT NULL,
    upload     bigint NOT NULL,
    size       bigint NOT NULL,
    sha256     text   NOT NULL,
    media_type bytea  NOT NULL,
    name       bytea,
    put_at     bigint NOT NULL
);
CREATE INDEX blobs_by_age ON blobs (put_at);
CREATE TABLE blob_uses (
    thread   bigint NOT NULL,
    blob     text COLLATE "C" NOT NULL,
    position int    NOT NULL,
    PRIMARY KEY (thread, blob)
);
CREATE INDEX uses_of_blobs ON blob_uses (blob);
