-- Commits find their rows by indexes, whatever the size of a table. The planner would read a small table
-- whole; it keeps such a plan while the table grows, and the old versions of few rows fill many pages.
ALTER FUNCTION commit_v1 SET enable_seqscan = off;
