"""Calls that may have happened are shown as such when nobody answers what became of them."""

from __future__ import annotations

import pytest
from crash_stage import Deed, Mortal, crash, ledger, recovered
from loop_stage import CheckedModel, Stage

from awaken import Agent
from awaken.core.message import Role
from awaken.testing import tool_call_response

pytestmark = pytest.mark.anyio

UNKNOWN = "it is unknown whether 'deed' took effect"


async def _asked(store: Mortal) -> tuple[Stage, CheckedModel]:
    """A process that asks what became of a call: the one that began it is gone."""
    deed = Deed(effect="once", recover="ask")
    model = CheckedModel(tool_call_response("", "deed", "c1", {}), "I see")
    agent = Agent("a", model=model, tools=[deed.tool])
    async with crash(store, agent, deed.begun, text="go"):
        store.alive = False
    store.alive = True
    stage = Stage(agent, store=store)
    assert (await recovered(stage)).suspended
    return stage, model


async def test_a_call_that_may_have_happened_is_shown_when_it_is_superseded() -> None:
    """Design §4: one whose outcome is unknown is never silently repeated."""
    stage, model = await _asked(Mortal())

    await stage.run("Well?")

    (told,) = [m.text() for m in model.requests[-1] if m.role is Role.TOOL]
    assert told.startswith(f"superseded; {UNKNOWN}")


async def test_a_call_that_may_have_happened_is_unknown_when_its_run_is_cancelled() -> None:
    """The ledger says so, too: a cancelled call would be one that did not happen."""
    stage, _ = await _asked(Mortal())

    await stage.runtime.cancel("t")

    (told,) = [m.text() for m in await stage.log() if m.role is Role.TOOL]
    assert told.startswith("Cancelled: the run ended before anybody decided; ")
    assert UNKNOWN in told
    assert await ledger(stage) == {"c1": "unknown"}
