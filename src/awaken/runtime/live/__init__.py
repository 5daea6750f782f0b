"""Hearing runs while they work: topics, the bus of this process, and the follower."""
