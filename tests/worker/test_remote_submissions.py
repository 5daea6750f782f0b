"""Submissions to an agent on a backend (06 §2.6)."""

from __future__ import annotations

import asyncio

import pytest
from far_kit import FarBackend, runtime_of, says

from awaken.core.lifecycle import NATURAL_END, RunStatus
from awaken.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

PATIENCE = 100


async def test_submissions_to_an_agent_elsewhere_are_carried_out_once_each() -> None:
    store, far = MemoryStore(), FarBackend(says("one"), says("two"))
    desk = runtime_of(far, store=store, recover=False)
    sent = [await desk.submit("far", word, thread="t") for word in ("a", "b")]
    assert far.requests == []
    async with asyncio.timeout(PATIENCE), runtime_of(far, store=store) as there:
        results = [await there.wait(submitted.run_id) for submitted in sent]
        runs = await there.list_runs()
        assert not await store.load_commands("t")
    assert [(one.termination, one.response) for one in results] == [
        (NATURAL_END, "one"),
        (NATURAL_END, "two"),
    ]
    assert {(run.run_id, run.status) for run in runs} == {
        (submitted.run_id, RunStatus.DONE) for submitted in sent
    }
    assert far.new_messages() == [["a"], ["b"]]
