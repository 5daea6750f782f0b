"""Steering work from outside: cancelling it, writing to it, owning its tasks."""
