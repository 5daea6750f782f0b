import pytest

pytest.register_assert_rewrite("awaken.testing.conformance")
