"""All checks of backends."""

from __future__ import annotations

from awaken.testing.conformance.backends import claims, events, running, stopping
from awaken.testing.conformance.backends.subject import BackendCheck


def backend_checks() -> list[BackendCheck]:
    """What every backend holds, as far as it claims to; each check takes a fresh subject."""
    return [check for part in (claims, running, events, stopping) for check in part.check.checks]
