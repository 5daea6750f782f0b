"""Limits of a runtime that callers may set; on their own, so that reading them loads no engine."""

CANCEL_GRACE = 5.0
"""Seconds in which a run has to end after it was cancelled."""

MAX_RUNS = 1_000
"""Live runs beyond which no further submitted or abandoned run is claimed."""
