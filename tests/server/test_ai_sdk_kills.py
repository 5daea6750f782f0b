"""A chat outlives its server; `make proof` kills it behind every frame, for every client."""

from __future__ import annotations

import pytest
from killed_chats import check

pytestmark = pytest.mark.anyio


async def test_a_page_ends_with_the_same_messages_if_its_server_is_killed() -> None:
    """06/SV-21: in the middle of a first answer, and of the answer after an approval."""
    assert await check({("seven", False): (5, 31), ("strict", True): (17,)}) == 3
