"""All backend checks."""

from __future__ import annotations

from awaken.testing.conformance.backends import claims, events, running, stopping
from awaken.testing.conformance.backends.helpers import BackendCheck


def backend_checks() -> list[BackendCheck]:
    """The checks for every backend, as far as its capabilities go; each takes a new subject."""
    return [check for part in (claims, running, events, stopping) for check in part.check.checks]
