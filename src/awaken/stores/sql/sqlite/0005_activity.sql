-- `active_at` orders lists: the time when a run of the thread last started, paused or ended. It changes
-- a few times a run, while `updated_at` changes with every commit. It is null until the first commit.

ALTER TABLE threads ADD COLUMN active_at INTEGER;
UPDATE threads SET active_at = updated_at WHERE position > 0;

-- Each list has an index in its order, so the cost of a page does not grow with the number of threads.
CREATE INDEX threads_by_activity ON threads (active_at DESC, id) WHERE active_at IS NOT NULL;
CREATE INDEX roots_by_activity ON threads (active_at DESC, id)
WHERE active_at IS NOT NULL AND parent IS NULL;
DROP INDEX threads_by_parent;
CREATE INDEX children_by_activity ON threads (parent, active_at DESC, id) WHERE parent IS NOT NULL;
