"""Cancels at some commits of every story; `cancel_sweep.py` tries all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cancel_sweep import STORES, STORIES, Field, sweep

pytestmark = pytest.mark.anyio

SHARE = {"memory": 151, "sqlite": 211, "postgres": 599}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("story", STORIES)
async def test_no_cancel_leaves_a_delegate_that_waits_for_an_ended_run(
    store: str, story: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """03/DB-6."""
    dsn = request.getfixturevalue("postgres").dsn if store == "postgres" else ""
    sums, failures = await sweep(Field(store, tmp_path, dsn), story, SHARE[store])
    assert failures == []
    assert sums["plays"]
    assert sums["cancels"]
