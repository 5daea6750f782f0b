"""One life of a process that hands a conversation over, unless it is killed.

`python handoff_life.py <home> [<point>]`: starts the run, or goes on with it, in the database in
`home`; dies at the given point.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from handoff_kit import to

from awaken import Agent, Runtime
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role, Text
from awaken.core.store.threads import RunQuery
from awaken.ext.handoff import AgentOverlay, Handoff
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel
from awaken.testing.chaos import EffectLog, KillSwitch, watch_model, watch_store

THREAD = "t"


def agents(effect_log: EffectLog) -> list[Agent]:
    """A desk that hands over at once, and billing, which says what it is told and shown."""

    def desk(request: InferenceRequest) -> StreamResult | str:
        last = request.messages[-1]
        return to("billing", text="One moment.") if "money" in last.text() else "Good day."

    def billing(request: InferenceRequest) -> StreamResult | str:
        last = request.messages[-1]
        if last.role is Role.USER and "back" in last.text():
            return to("desk", "h2")
        prompt = "".join(block.text for block in request.system if isinstance(block, Text))
        return f"{prompt} I see {len(request.messages)}."

    way = Handoff(
        "billing",
        input_filter="since_handoff",
        overlay=AgentOverlay(system_prompt="Billing, for the desk."),
        returns=True,
    )
    models = [FunctionModel(desk, name="desk"), FunctionModel(billing, name="billing")]
    watched = [watch_model(model, effect_log) for model in models]
    return [
        Agent("desk", model=watched[0], handoffs=[way]),
        Agent("billing", model=watched[1], system_prompt="Billing."),
    ]


async def live(home: Path, kill_at: frozenset[int]) -> None:
    """Say hello, ask for the money, and see to it that both runs end."""
    effect_log = EffectLog(home / "effect_log")
    switch = KillSwitch(effect_log, kill_at)
    store = watch_store(SqliteStore(home / "awaken.db"), switch)
    await store.open()
    try:
        async with Runtime(agents(effect_log), store=store, recover=False) as runtime:
            for said, words in enumerate(["Hello.", "My money, please."]):
                for run in await runtime.recover():
                    await run
                if len((await runtime.list_runs(RunQuery(thread_id=THREAD))).items) == said:
                    await runtime.run("desk", words, thread=THREAD)
            for run in await runtime.recover():
                await run
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), frozenset(map(int, sys.argv[2:]))))
