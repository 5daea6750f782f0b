"""Typed state: keys with their reducers and merge rules, snapshots, commands, the store. No I/O."""
