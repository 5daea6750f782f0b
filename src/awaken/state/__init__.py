"""Typed state: keys that carry their own law, snapshots, commands and the store. Pure."""
