"""A served desk with keys of two tenants, for the tests of the edge and of `/v1`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from server_kit import served

from awaken import Agent, Runtime, tool
from awaken.core.store.store import Store
from awaken.server import app
from awaken.server.keys import add_key
from awaken.testing import ScriptedModel, tool_call_response

ROLES = {
    "boss": ("admin",),
    "page": ("invoke",),
    "viewer": ("read",),
    "approver": ("decide",),
    "operator": ("read", "decide"),
    "developer": ("invoke", "read", "decide", "inspect", "configure"),
}
"""The roles of each key of the tenant `acme`; `stranger` is the admin of another tenant."""


@tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def payer(turns: int = 20) -> Agent:
    """An agent that asks before it pays, and says so afterwards."""
    call = tool_call_response("", "pay", "c1", {"euros": 5})
    return Agent("payer", model=ScriptedModel([call, "Paid."] * turns), tools=[pay])


def talker(turns: int = 200) -> Agent:
    """An agent that says hello."""
    return Agent("talker", model=ScriptedModel(["Hello."] * turns), description="Says hello")


def slow(released: asyncio.Event) -> Agent:
    """An agent whose tool works until it is cancelled, and ends when it is released."""

    @tool
    async def wait() -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            await released.wait()
        return "done"

    call = tool_call_response("", "wait", "c1", {})
    return Agent("slow", model=ScriptedModel([call] * 9), tools=[wait])


def write_keys(path: Path) -> dict[str, str]:
    """A key file for the two tenants: its keys, by name."""
    keys = {
        name: add_key(path, name=name, scope="acme", roles=roles) for name, roles in ROLES.items()
    }
    keys["stranger"] = add_key(path, name="stranger", scope="other", roles=("admin",))
    keys["nobody"] = "awk_nobody_" + "x" * 43
    return keys


class Desk:
    """A server with keys, and a client for each of them."""

    def __init__(
        self, client: httpx2.AsyncClient, address: str, runtime: Runtime, keys: dict[str, str]
    ) -> None:
        self.client, self.address, self.runtime, self.keys = client, address, runtime, keys
        self.answers: list[httpx2.Response] = []

    async def ask(self, who: str | None, method: str, path: str, **more: Any) -> httpx2.Response:
        """Make a request with somebody's key, or with none."""
        headers = dict(more.pop("headers", {}))
        if who is not None:
            headers["authorization"] = f"Bearer {self.keys[who]}"
        answer = await self.client.request(method, path, headers=headers, **more)
        self.answers.append(answer)
        return answer

    async def ticket(self, thread: str, who: str = "developer") -> dict[str, Any]:
        """Have the payer ask in a thread; the open ticket."""
        asked = {"agent_id": "payer", "messages": ["Pay 5"]}
        path = f"/v1/threads/{thread}/runs?wait=30"
        answer = await self.ask(who, "POST", path, json=asked)
        assert answer.status_code == 200, answer.text
        (question,) = answer.json()["tickets"]
        return {**question, "run_id": answer.json()["run_id"]}


@asynccontextmanager
async def open_desk(
    folder: Path,
    *,
    store: str | Store = "memory:",
    agents: Iterable[Agent] | None = None,
    keys: dict[str, str] | None = None,
    recover: bool = True,
    **options: Any,
) -> AsyncIterator[Desk]:
    """Serve the two agents with the keys of both tenants."""
    file = folder / "keys.toml"
    known = write_keys(file) if keys is None else keys
    async with AsyncExitStack() as stack:
        listed = (talker(), payer()) if agents is None else agents
        runtime = await stack.enter_async_context(Runtime(listed, store=store, recover=recover))
        address = await stack.enter_async_context(served(app(runtime, keys=file, **options)))
        client = httpx2.AsyncClient(base_url=address, timeout=550)
        yield Desk(await stack.enter_async_context(client), address, runtime, known)


def code_of(answer: httpx2.Response) -> str:
    """The code of a refusal."""
    in_words = answer.headers.get("x-awaken-error")
    return in_words or str(answer.json()["error"]["code"])


def events_of(answer: httpx2.Response) -> list[dict[str, Any]]:
    """The events of a stream."""
    lines = [line for line in answer.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]
