"""A shop as its users would write it, whose process dies right after the goods were sent.

    python charge_and_ship.py DATABASE LEDGER report|verify|ask [die]

The ledger is the world outside: a line for every deed. With `die`, `ship` kills its own process
after its deed and before it returns. Without, the program recovers and prints what it has.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from awaken import Agent, Runtime, ToolCallContext, ToolCallResume, tool
from awaken.codec import dumps_text
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.testing import FunctionModel, text_response, tool_call_response

THREAD = "order-7"


def shop(ledger: Path, policy: str, die: bool) -> Agent:
    def write(deed: str, ctx: ToolCallContext) -> None:
        with ledger.open("a") as file:
            file.write(f"{deed} {ctx.idempotency_key}\n")

    def was_shipped(ctx: ToolCallContext) -> str | bool:
        return (
            "it left on Monday" if f"ship {ctx.idempotency_key}\n" in ledger.read_text() else False
        )

    @tool
    async def charge(order: int, ctx: ToolCallContext) -> str:
        """Take the money."""
        write("charge", ctx)
        return "charged"

    ways: dict[str, Any] = {"verify": {"verify": was_shipped}, "ask": {"recover": "ask"}}

    @tool(**ways.get(policy, {}))
    async def ship(order: int, ctx: ToolCallContext) -> str:
        """Send the goods."""
        write("ship", ctx)
        if die:
            os.kill(os.getpid(), signal.SIGKILL)
        return "shipped"

    return Agent("shop", model=FunctionModel(answer), tools=[charge, ship])


def answer(request: InferenceRequest) -> StreamResult:
    """Charge, ship, and tell what came of it."""
    told = [message.text() for message in request.messages if message.role is Role.TOOL]
    if len(told) == 2:
        return text_response(" / ".join(told))
    return tool_call_response("", ("charge", "ship")[len(told)], f"c{len(told)}", {"order": 7})


async def main(database: str, ledger: str, policy: str, *rest: str) -> None:
    agent = shop(Path(ledger), policy, die=bool(rest))
    async with Runtime([agent], store=f"sqlite:///{database}", recover=False) as runtime:
        if rest:
            await runtime.run("shop", "One chair, please.", thread=THREAD)
        asked = []
        for recovered in await runtime.recover():
            result = await recovered
            for ticket in result.tickets:
                asked.append(ticket.reason)
                seen = ToolCallResume.approve("Ann saw it leave", by="ann")
                result = await runtime.run(thread=THREAD, answers={ticket: seen})
        run = await runtime.engine.store.latest_run(THREAD)
        calls = await runtime.engine.store.load_calls(run.run_id) if run else []
        found = {
            "ledger": [call.phase for call in calls],
            "asked": asked,
            "answer": run.final_output if run else None,
        }
        print(dumps_text(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
