"""A process is killed in the middle of a tool; the next one goes on, and pays only once."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.models import InferenceRequest, StreamResult
from awaken.testing import FunctionModel, text_response, tool_call_response

here = Path(__file__).resolve()
bank = Path("payments.txt")


def was_paid(ctx: ToolCallContext) -> bool:
    """Ask the bank, which here is a file."""
    return ctx.idempotency_key in bank.read_text()


@tool(effect="once", recover="verify", verify=was_paid)
def pay(invoice: str, ctx: ToolCallContext) -> str:
    """Pay an invoice."""
    with bank.open("a") as book:
        book.write(f"{invoice} {ctx.idempotency_key}\n")
    if "--die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{invoice} is paid"


def answer(request: InferenceRequest) -> StreamResult:
    """A model that looks at the conversation, as models do."""
    if not any(message.tool_calls for message in request.messages):
        return tool_call_response("I will pay it.", "pay", "c1", {"invoice": "INV-7"})
    return text_response(f"Done: {request.messages[-1].text()}.")


agent = Agent("clerk", model=FunctionModel(answer), tools=[pay])


async def first() -> None:
    async with Runtime([agent], store="sqlite:///clerk.db") as runtime:
        await runtime.run("clerk", "Pay invoice INV-7", thread="invoices")


async def second() -> None:
    async with Runtime([agent], store="sqlite:///clerk.db") as runtime:
        for run in runtime.recovered:
            print((await run).response)


if __name__ == "__main__":
    if "--die" in sys.argv:
        asyncio.run(first())
    else:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            bank.touch()
            killed = subprocess.run([sys.executable, here, "--die"], check=False)
            print("the first process was killed:", killed.returncode == -signal.SIGKILL)
            asyncio.run(second())
            print("payments:", len(bank.read_text().splitlines()))
