"""Live buses: within a process, and over NATS."""
