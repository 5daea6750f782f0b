-- Runs of one parent run are listed by it. The column is the last one and mostly null, so the row of
-- a run without a parent grows by a byte.

ALTER TABLE runs ADD COLUMN parent TEXT;

-- A record may be nested more deeply than SQLite can read JSON; the migration must not fail on it.
UPDATE runs SET parent = json_extract(CAST(record AS TEXT), '$.parent_run_id')
WHERE CASE WHEN json_valid(CAST(record AS TEXT))
           THEN json_extract(CAST(record AS TEXT), '$.parent_run_id') END IS NOT NULL;

CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
