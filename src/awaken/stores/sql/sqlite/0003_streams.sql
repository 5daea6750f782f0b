-- The stream log: unfinished model answers, entry by entry; a row lives for seconds.

CREATE TABLE streams (
  thread INTEGER NOT NULL,
  number INTEGER NOT NULL,
  piece BLOB NOT NULL,
  PRIMARY KEY (thread, number)
) WITHOUT ROWID;
