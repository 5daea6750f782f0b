"""Searching threads and runs, and summing what runs have used: values, queries and the index."""
