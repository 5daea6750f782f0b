"""Durable steps: what a step costs when it must survive the process, in one SQLite file."""
