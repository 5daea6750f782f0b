"""A cancel for a delegate that has ended already is not kept: it would wait there for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from delegation_kit import Place, T, World, only_child, to

from awaken.core.lifecycle import RunStatus
from awaken.testing.conformance.helpers import waiting_threads

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_nothing_waits_for_a_delegate_that_had_ended_when_its_call_was_superseded(
    kind: str, tmp_path: Path
) -> None:
    world = World()
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("pay", {"n": 5})]),
    ]
    async with Place(kind, tmp_path).runtime(agents, recover=False) as runtime:
        assert (await runtime.run("boss", "go", thread=T)).suspended
        child = await only_child(runtime)
        await runtime.store.cancel_tree(child, at_ms=0)
        for recovered in await runtime.recover():
            await recovered
        ended = await runtime.find_run(child)
        assert ended is not None
        assert ended.status is RunStatus.DONE

        await runtime.run("boss", "never mind", thread=T)
        waiting = await waiting_threads(runtime.store)
    assert not waiting
