"""Checks that hold a backend to what it says of itself, to be run on one's own.

    @pytest.mark.parametrize("check", backend_checks(), ids=lambda check: check.__name__)
    async def test_backend(check: BackendCheck, subject: BackendSubject) -> None:
        await check(subject)

`subject` is a fresh `BackendSubject`: it makes the backend, with the few agents it is checked with,
and says how to see what they do. What a backend does not claim is not asked of it.
"""

from awaken.testing.conformance.backends.subject import (
    BackendCheck,
    BackendPart,
    BackendSubject,
)
from awaken.testing.conformance.backends.suite import backend_checks

__all__ = ["BackendCheck", "BackendPart", "BackendSubject", "backend_checks"]
