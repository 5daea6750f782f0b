"""Which hooks are given a task of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_kit import Piece

from awaken import Agent, Command, Phase, PhaseContext, Runtime, StateKey, tool
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio

HOOKED = [phase for phase in Phase if phase is not Phase.TOOL_GATE]
NOTE: StateKey[str, str] = StateKey("note", initial=str)


@tool
async def look() -> str:
    """Look."""
    return "seen"


def agent_of(*plugins: Piece) -> Agent:
    model = ScriptedModel([tool_call_response("", "look", "c1", {}), "done"])
    return Agent("a", model=model, tools=[look], plugins=plugins, state=[NOTE])


async def test_a_hook_beside_others_that_have_nothing_to_do_needs_no_task() -> None:
    """The built-in hooks say when they have something to do, as a plugin's own may."""
    tasks: dict[Phase, Any] = {}

    async def hook(ctx: PhaseContext) -> None:
        tasks[ctx.phase] = asyncio.current_task()

    async def never(_: PhaseContext) -> None:
        raise AssertionError("its guard said no")

    plugin = Piece(
        "p",
        *(lambda r, phase=phase: r.hook(phase, hook) for phase in HOOKED),
        *(lambda r, phase=phase: r.hook(phase, never, when=lambda _: False) for phase in HOOKED),
    )
    await Runtime([agent_of(plugin)]).run("a", "go")

    assert set(tasks) == set(HOOKED)
    assert len(set(tasks.values())) == 1


async def test_hooks_that_both_have_something_to_do_run_side_by_side() -> None:
    met = asyncio.Barrier(2)

    async def hook(_: PhaseContext) -> None:
        async with asyncio.timeout(100):
            await met.wait()

    plugins = [Piece(name, lambda r: r.hook(Phase.AFTER_INFERENCE, hook)) for name in "pq"]

    assert (await Runtime([agent_of(*plugins)]).run("a", "go")).response == "done"


async def test_a_guard_sees_what_the_hooks_of_earlier_phases_wrote() -> None:
    asked: list[str | None] = []

    async def writes(_: PhaseContext) -> Command:
        return Command().update(NOTE, "written")

    async def reads(ctx: PhaseContext) -> None:
        asked.append(ctx.read(NOTE))

    async def is_beside(_: PhaseContext) -> None:
        return None

    plugin = Piece(
        "p",
        lambda r: r.hook(Phase.AFTER_INFERENCE, writes),
        lambda r: r.hook(Phase.STEP_START, is_beside),
        lambda r: r.hook(Phase.STEP_START, reads, when=lambda s: s.get(NOTE) is not None),
    )
    await Runtime([agent_of(plugin)]).run("a", "go")

    assert asked == ["written"]
