-- An approver names a ticket by its key alone; a tenant may have very many tickets.
CREATE INDEX tickets_by_key ON tickets (key);
