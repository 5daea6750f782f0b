"""What many machines cost: commits to Postgres beside SQLite, nodes at work, nodes at rest."""
