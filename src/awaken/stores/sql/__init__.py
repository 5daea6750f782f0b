"""What SQL stores share: named queries, and numbered migrations, one folder for each dialect."""
