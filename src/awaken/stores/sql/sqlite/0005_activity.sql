-- Threads are listed by when a run in them last began, paused or ended. That moves a few times a
-- run, where `updated_at` moves with every commit. It is null until the first commit.

ALTER TABLE threads ADD COLUMN active_at INTEGER;
UPDATE threads SET active_at = updated_at WHERE position > 0;

-- Each list has an index that is in its order, so a page costs the same however many threads there are.
CREATE INDEX threads_by_activity ON threads (active_at DESC, id) WHERE active_at IS NOT NULL;
CREATE INDEX roots_by_activity ON threads (active_at DESC, id)
WHERE active_at IS NOT NULL AND parent IS NULL;
DROP INDEX threads_by_parent;
CREATE INDEX children_by_activity ON threads (parent, active_at DESC, id) WHERE parent IS NOT NULL;
