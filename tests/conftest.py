import pytest
from hypothesis import HealthCheck, settings

from postgres_kit import postgres
from request_check import request_check

__all__ = ["postgres", "request_check"]

pytest.register_assert_rewrite("awaken.testing.conformance")

# A loaded machine is no fault of the code: no test depends on how quickly examples are made or run.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
