"""What runs may use up: accounts and reservations."""
