"""A page with the AI SDK's `useChat`, and the agent behind it, in one application.

Bundle the page (see `chat.jsx`), then run `uvicorn app:application` in this folder.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Mount, Route

from awaken import Agent, Runtime, tool
from awaken.server import app

HERE = Path(__file__).parent


def is_much(amount: int, to: str) -> bool:
    return amount > 100


@tool(needs_approval=is_much)
async def pay(amount: int, to: str) -> str:
    """Pay somebody an amount of euros."""
    return f"paid {amount} € to {to}"


runtime = Runtime([Agent("clerk", model="demo", tools=[pay])], store="sqlite:///chats.db")


@asynccontextmanager
async def lifespan(application: Starlette) -> AsyncGenerator[None]:
    async with runtime:
        yield


async def page(request: Request) -> FileResponse:
    return FileResponse(HERE / "index.html")


async def script(request: Request) -> FileResponse:
    return FileResponse(HERE / "chat.js")


application = Starlette(
    lifespan=lifespan,
    routes=[Route("/", page), Route("/chat.js", script), Mount("/", app(runtime))],
)
