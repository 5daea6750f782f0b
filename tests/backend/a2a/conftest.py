"""An agent of the official SDK for each module, and a thread for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from a2a_harness import RunningAgent, running_agent


@pytest.fixture(scope="module")
def agent() -> Iterator[RunningAgent]:
    with running_agent() as running:
        yield running


@pytest.fixture
def thread(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
