"""Agents that ask, each for something else; run as a program, one of them dies in the middle."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a program: where its kits are

from console_kit import said

from awaken import Agent, Budget, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.testing import FunctionModel

UNDER_WAY: list[str] = []
SHIPPING, ARRIVED = threading.Event(), threading.Event()


def model(name: str, *first: StreamResult) -> FunctionModel:
    """A model that makes its calls, and then repeats the last thing that it was told."""

    async def answer(request: InferenceRequest) -> StreamResult:
        given = sum(message.role is Role.ASSISTANT for message in request.messages)
        return first[given] if given < len(first) else said(f"heard: {request.messages[-1].text()}")

    return FunctionModel(answer, name)


@tool(effect="once", recover="ask")
async def transfer(to: str, euros: int) -> str:
    """Transfer money: the process dies when all of its transfers are under way."""
    UNDER_WAY.append(to)
    if len(UNDER_WAY) == len(sys.argv) - 2:
        os._exit(9)
    await asyncio.Event().wait()
    raise AssertionError


@tool(effect="read")
async def look(at: str) -> str:
    """Look at something."""
    return f"{at} is fine"


@tool(effect="once", needs_approval=True, approval_expires_in=3_600)
async def sell(piece: str, number: int) -> str:
    """Sell something, while the offer stands."""
    return f"sold {number} of {piece}"


@tool(effect="once")
def ship(parcel: str) -> str:
    """Hand a parcel to the carrier. It works in a thread, which nothing can stop."""
    SHIPPING.set()
    ARRIVED.wait(60)
    return f"{parcel} has arrived"


TELLER = Agent(
    "teller",
    model=model("teller-1", said("I pay the rent.", ("transfer", {"to": "Bob", "euros": 900}))),
    tools=[transfer],
)
SPENDER = Agent(
    "spender",
    model=model("spender-1", said("I look.", ("look", {"at": "the roof"}))),
    tools=[look],
    budget=Budget(steps=1, at_limit="ask"),
)
SELLER = Agent(
    "seller",
    model=model("seller-1", said("It is a good price.", ("sell", {"piece": "vase", "number": 2}))),
    tools=[sell],
)
SHIPPER = Agent(
    "shipper",
    model=model("shipper-1", said("Off.", ("look", {"at": "it"}), ("ship", {"parcel": "P-1"}))),
    tools=[look, ship],
)
AGENTS = [TELLER, SPENDER, SELLER, SHIPPER]


async def die(file: str, threads: list[str]) -> None:
    async with Runtime([TELLER], store=f"sqlite:///{file}", recover=False) as runtime:
        runs = [runtime.run("teller", "Pay the rent.", thread=thread) for thread in threads]
        await asyncio.gather(*runs)


async def crash(file: Path, *threads: str) -> None:
    """Have another process die while it transfers money, in each of the threads."""
    died = await asyncio.create_subprocess_exec(sys.executable, __file__, str(file), *threads)
    assert await died.wait() == 9


if __name__ == "__main__":
    asyncio.run(die(sys.argv[1], sys.argv[2:]))
