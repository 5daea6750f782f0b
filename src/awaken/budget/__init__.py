"""Budgets at run time: accounts and reservations."""
