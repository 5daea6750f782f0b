-- What servers keep: the keys of clients (by a hash of each), who is signed in, what clients did, and
-- what tokens are signed with.

CREATE TABLE keys (
  id TEXT NOT NULL PRIMARY KEY,
  scope TEXT NOT NULL,
  record BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE sessions (
  id TEXT NOT NULL PRIMARY KEY,
  scope TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  record BLOB NOT NULL
) WITHOUT ROWID;

CREATE INDEX sessions_by_end ON sessions (expires_at);

-- A number is never used again: pages of the audit begin before one.
CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  scope TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  record BLOB NOT NULL
);

CREATE INDEX audit_of_scope ON audit (scope, number);
CREATE INDEX audit_by_age ON audit (at_ms);

CREATE TABLE secrets (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- Sessions were tokens without a row; those that were signed out stood among the profiles.
DELETE FROM profiles WHERE owner = 'agent:~sessions' OR owner LIKE '%/agent:~sessions';
