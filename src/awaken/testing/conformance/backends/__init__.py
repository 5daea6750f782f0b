"""Conformance checks for backends, according to the capabilities they declare.

    @pytest.mark.parametrize("check", backend_checks(), ids=lambda check: check.__name__)
    async def test_backend(check: BackendCheck, subject: BackendSubject) -> None:
        await check(subject)

`subject` is a new `BackendSubject`: it makes the backend with the few agents that the checks use,
and lets them observe these agents. Capabilities that a backend does not declare are not checked.
"""

from awaken.testing.conformance.backends.helpers import (
    BackendCheck,
    BackendPart,
    BackendSubject,
)
from awaken.testing.conformance.backends.suite import backend_checks

__all__ = ["BackendCheck", "BackendPart", "BackendSubject", "backend_checks"]
