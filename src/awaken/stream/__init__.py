"""Putting a model's answer together."""
