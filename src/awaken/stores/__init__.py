"""Where threads are kept: one folder a technology."""
