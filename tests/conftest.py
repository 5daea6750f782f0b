import pytest

pytest.register_assert_rewrite("awaken.testing.conformance")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
