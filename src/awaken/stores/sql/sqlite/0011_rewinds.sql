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
