"""What the SQL stores share: named queries, and numbered migrations in one folder a dialect."""
