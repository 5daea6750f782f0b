"""Protocols others implement, and the values they exchange."""
