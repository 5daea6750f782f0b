-- Which commits use which blobs. The blobs themselves are elsewhere; one that is not here may go.

CREATE TABLE blob_uses (
  thread INTEGER NOT NULL,
  blob TEXT NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (thread, blob)
) WITHOUT ROWID;

CREATE INDEX uses_of_blobs ON blob_uses (blob);
