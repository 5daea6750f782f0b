-- Runs that were written after some time: those that are open, which are few, and those that have ended
-- since. `updated_at_ms` of the latter does not change any more, so a run moves this index once.
CREATE INDEX runs_ended ON runs (updated_at_ms) WHERE status = 'done';

-- Tenants have agents in common: the runs of an agent are many, and those of one tenant may be few.
CREATE INDEX runs_of_tenants ON runs (scope, agent) WHERE scope <> '';
