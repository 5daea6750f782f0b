-- What models were asked: the texts that kept requests refer to, once each, and which commits use
-- them. The digest of a text is the first 16 bytes of its SHA-256.

CREATE TABLE texts (
  digest BLOB PRIMARY KEY,
  body BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE text_uses (
  thread INTEGER NOT NULL,
  digest BLOB NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (thread, digest)
) WITHOUT ROWID;

CREATE INDEX uses_of_texts ON text_uses (digest);
