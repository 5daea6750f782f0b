-- Answers that are still being written, piece by piece; a row lives for seconds.

CREATE TABLE streams (
  thread INTEGER NOT NULL,
  number INTEGER NOT NULL,
  piece BLOB NOT NULL,
  PRIMARY KEY (thread, number)
) WITHOUT ROWID;
