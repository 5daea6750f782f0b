"""`make cluster`: three nodes, Postgres and NATS on this machine, and a node that is killed."""
