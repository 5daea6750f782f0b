-- What servers keep: the keys of clients (by a hash of each), who is signed in, what clients did, and
-- what tokens are signed with. Records are bytes: names may hold what Postgres does not take as text.
CREATE TABLE keys (
    id     text COLLATE "C" PRIMARY KEY,
    scope  text COLLATE "C" NOT NULL,
    record bytea NOT NULL
);

CREATE TABLE sessions (
    id         text COLLATE "C" PRIMARY KEY,
    scope      text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL,
    record     bytea  NOT NULL
);
CREATE INDEX sessions_by_end ON sessions (expires_at);

CREATE TABLE audit (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope  text COLLATE "C" NOT NULL,
    at_ms  bigint NOT NULL,
    record bytea  NOT NULL
);
CREATE INDEX audit_of_scope ON audit (scope, number);
CREATE INDEX audit_by_age ON audit (at_ms);

CREATE TABLE secrets (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- Sessions were tokens without a row; those that were signed out stood among the profiles.
DELETE FROM profiles WHERE owner = 'agent:~sessions' OR owner LIKE '%/agent:~sessions';
