-- A run is the work of an agent or of a background task, and its record says which. Until now, tasks
-- were told by how the id of their agent begins and by what is in their request.

ALTER TABLE runs ADD COLUMN kind TEXT NOT NULL DEFAULT 'agent';

-- The record is changed as text: it may be nested more deeply than SQLite reads JSON. One that is so
-- deep is a task's, since only the results of tasks are in a request.
UPDATE runs
SET kind = 'task',
    record = CAST('{"kind":"task",' || substr(CAST(record AS TEXT), 2) AS BLOB)
WHERE agent GLOB 'task:*'
  AND CASE WHEN json_valid(CAST(record AS TEXT))
           THEN json_type(CAST(record AS TEXT), '$.request.request_extras.task') IS NOT NULL
           ELSE substr(CAST(record AS TEXT), 1, 1) = '{' END;

CREATE INDEX runs_of_tasks ON runs (kind) WHERE kind = 'task';
