"""The agents backends are checked with; the same ones here and in processes of their own."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

from awaken import Agent, tool
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.testing import FunctionModel, tool_calls_response


def users(request: InferenceRequest) -> list[str]:
    return [message.text() for message in request.messages if message.role is Role.USER]


def calling(name: str) -> FunctionModel:
    """Calls a tool, then says what it answered."""

    def say(request: InferenceRequest) -> Any:
        last = request.messages[-1]
        return last.text() if last.role is Role.TOOL else tool_calls_response("", (name, "c1", {}))

    return FunctionModel(say)


def refuse(request: InferenceRequest) -> str:
    raise RuntimeError("out of order")


@tool
async def wait() -> None:
    """Calls whoever watches, and waits for ever; the call lasts as long as it does."""
    with socket.create_connection(("127.0.0.1", int(os.environ["WATCHER"]))) as call:
        call.sendall(f"{os.getpid()}\n".encode())
        await asyncio.Event().wait()


@tool(needs_approval=True)
async def pay() -> str:
    """Costs money."""
    return "paid"


echo = Agent("echo", model=FunctionModel(lambda request: users(request)[-1]))
recalling = Agent("recalling", model=FunctionModel(lambda request: users(request)[0]))
slow = Agent("slow", model=calling("wait"), tools=[wait])
failing = Agent("failing", model=FunctionModel(refuse))
asking = Agent("asking", model=calling("pay"), tools=[pay])
