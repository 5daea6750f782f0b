"""A chat behind FastAPI: each user has the tools that are meant for them.

`uvicorn chat_service:application` serves it. As a program, this file calls its own route.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from httpx2 import ASGITransport, AsyncClient
from pydantic import BaseModel

from awaken import Agent, Budget, Runtime, tool
from awaken.server import app
from awaken.tool import Tool
from awaken.toolsets import RunInfo, Toolset, toolset

STOCK = {"lamp": 12}


@tool(effect="read")
async def stock(item: str) -> int:
    """How many of an item are in stock."""
    return STOCK[item]


@tool(effect="idempotent")
async def restock(item: str, pieces: int) -> str:
    """Set how many of an item are in stock."""
    STOCK[item] = pieces
    return f"{pieces} of {item}"


shop = Toolset("shop", [stock, restock]).prefixed("shop_")


@toolset
async def tools_of(run: RunInfo) -> Sequence[Tool]:
    """Managers may do all of it, others only look."""
    return (shop if run.labels.get("role") == "manager" else shop.only("shop_stock")).tools


clerk = Agent("clerk", model="demo", tools=[tools_of], budget=Budget(steps=8))
runtime = Runtime([clerk])  # store="sqlite:///chats.db" keeps them


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    async with runtime:
        yield


application = FastAPI(lifespan=lifespan)
application.mount("/agents", app(runtime))


class Said(BaseModel):
    text: str
    user: str
    role: str = "guest"  # in earnest, from the session


@application.post("/chat")
async def chat(said: Said) -> str:
    result = await runtime.run("clerk", said.text, user=said.user, labels={"role": said.role})
    return result.response if result.ok else f"Sorry: {result.reason}"


async def main() -> None:
    transport = ASGITransport(app=application)
    async with lifespan(application), AsyncClient(transport=transport, base_url="http://x") as web:
        for user, role in (("ann", "manager"), ("bob", "guest")):
            said = Said(text="Please restock the item 'lamp', pieces: 20", user=user, role=role)
            print(user, (await web.post("/chat", json=said.model_dump())).json())
    print(STOCK)


if __name__ == "__main__":
    asyncio.run(main())
