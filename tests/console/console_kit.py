"""A shop with a served console, for tests and pictures."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.routing import Mount

from awaken import Agent, Runtime, tool
from awaken.core.budget import Price
from awaken.core.identity import Principal
from awaken.core.inference import StopReason, StreamResult, TokenUsage
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role, Text, ToolCall
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import ToolCallResume
from awaken.core.tool import ToolDescriptor
from awaken.server import app
from awaken.server.auth import LOCAL
from awaken.testing import FunctionModel
from uvicorn_kit import end_server

ANN = Principal(id="ann", roles=("admin",))
PRICES = {"desk-1": Price(input=2.0, output=8.0), "clerk-1": Price(input=0.25, output=1.0)}


@tool(effect="read")
async def find_order(number: int) -> dict[str, Any]:
    """Find an order."""
    return {"number": number, "paid": 40, "state": "delivered", "customer": "Ann"}


@tool(effect="read")
async def policy(topic: str) -> str:
    """What the shop's rules say."""
    return f"{topic}: broken goods are paid back within 30 days"


@tool(effect="read")
async def weigh(parcel: str) -> str:
    """Weigh a parcel."""
    raise RuntimeError(f"the scale does not answer for {parcel}")


def said(text: str, *calls: tuple[str, dict[str, Any]], tokens: int = 300) -> StreamResult:
    """An answer with calls; every answer uses the same call ids, as some providers do."""
    made = tuple(
        ToolCall(id=f"c{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(calls)
    )
    return StreamResult(
        content=(Text(text=text),),
        tool_calls=made,
        usage=TokenUsage(prompt_tokens=tokens, completion_tokens=20),
        stop_reason=StopReason.TOOL_USE if made else StopReason.END_TURN,
    )


SCRIPTS = {
    "desk-1": [
        said(
            "I look at the order and at the shop's rules.",
            ("agent_run_clerk", {"prompt": "What was paid for order 7?"}),
            ("policy", {"topic": "broken goods"}),
        ),
        said("The mug came broken, so I pay it back.", ("refund", {"order": 7, "euros": 40})),
        said("I have paid **40 euros** back.\n\n- Ann has been told\n- the order is `closed`"),
    ],
    "clerk-1": [
        said("Let me see.", ("find_order", {"number": 7}), tokens=120),
        said("Order 7 was paid with 40 euros, and delivered.", tokens=160),
    ],
    "host-1": [said("I ask.", ("ask_visitor", {"what": "your name"})), said("")],
    "porter-1": [said("I weigh it.", ("weigh", {"parcel": "P-1"})), said("The scale is broken.")],
}


class Shop:
    """A runtime on a SQLite file, served on a port that stays the same.

    A desk lets a clerk look something up, and asks before it pays; a porter's tool fails, and its
    model has no price. Models answer when the `gate` is open. With a `prefix`, it is mounted there
    in another application.
    """

    def __init__(
        self,
        folder: Path,
        *,
        agents: Sequence[Agent] = (),
        keep_requests: bool = True,
        prefix: str = "",
        **edge: Any,
    ) -> None:
        self.gate, self.paying = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.paid: list[str] = []
        self.problems: list[str] = []
        self.received: dict[str, list[InferenceRequest]] = {name: [] for name in SCRIPTS}
        self.scripts = dict(SCRIPTS)
        self.runtime = Runtime(
            [*self._agents(), *agents],
            store=f"sqlite:///{folder / 'shop.db'}",
            models={name: FunctionModel(self._answer(name), name) for name in SCRIPTS},
            prices=PRICES,
            keep_requests=keep_requests,
        )
        self._edge, self._prefix = edge, prefix
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self._port}{prefix}"
        self.client = httpx2.AsyncClient(base_url=self.address)

    def _agents(self) -> list[Agent]:
        @tool(effect="once", needs_approval=True)
        async def refund(order: int, euros: int) -> str:
            """Pay money back."""
            self.paid.append(f"paid {euros} euros back for order {order}")
            self.paying.set()
            return self.paid[-1]

        clerk = Agent("clerk", model="clerk-1", description="Knows orders.", tools=[find_order])
        desk = Agent(
            "desk", model="desk-1", tools=[policy, refund], delegates=[clerk], max_rounds=20_000
        )
        host = Agent("host", model="host-1")
        return [desk, clerk, host, Agent("porter", model="porter-1", tools=[weigh])]

    def _answer(self, name: str) -> Any:
        async def answer(request: InferenceRequest) -> StreamResult:
            self.received[name].append(replace(request, messages=list(request.messages)))
            await self.gate.wait()
            given = sum(message.role is Role.ASSISTANT for message in request.messages)
            if name == "host-1" and given:
                return said(f"Welcome, {request.messages[-1].text()}")
            return self.scripts[name][given % len(self.scripts[name])]

        return answer

    # -- serving ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve as a new process does, which knows nothing of earlier sessions."""
        self.application: Starlette = app(self.runtime, **self._edge)
        served = self.application
        if self._prefix:
            served = Starlette(routes=[Mount(self._prefix, self.application)])
        config = uvicorn.Config(
            served, port=self._port, log_level="error", lifespan="off", loop="none"
        )
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server._serve())
        while not self._server.started:  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Stop serving at once, as a process does that is killed."""
        await end_server(self._server, self._serving)

    def link(self, place: str = "") -> str:
        """The address that `awaken serve` would print."""
        word = self.application.state.sessions.make_word(LOCAL)
        return f"{self.address}/console/{place}#t={word}"

    # -- what happens in it ---------------------------------------------------------------------

    async def submit(self, thread: str, agent: str, words: str) -> str:
        """The id of a run that has been asked for."""
        taken = await self.runtime.submit(agent, words, thread=thread)
        return taken.run_id

    async def waiting_run(self, thread: str) -> str:
        """The id of a run that waits for an answer."""
        result = await self.runtime.run("desk", "My mug arrived in pieces.", thread=thread)
        assert result.waiting
        return result.run_id

    async def asking_run(self, thread: str) -> str:
        """The id of a run that waits for a value."""
        asks = ToolDescriptor(id="ask_visitor", name="ask_visitor", description="Ask a visitor.")
        result = await self.runtime.run("host", "Hello.", thread=thread, frontend_tools=[asks])
        assert result.waiting
        return result.run_id

    async def answer_elsewhere(self, thread: str) -> None:
        """Ann denies, by other means than the page."""
        for ticket in await self.runtime.list_tickets(TicketQuery(thread_id=thread)):
            no = ToolCallResume.deny("too late", digest=ticket.digest)
            await self.runtime.decide(ticket.run_id, {ticket.key: no}, principal=ANN)

    async def edit_elsewhere(self, thread: str, arguments: dict[str, Any]) -> None:
        """Ann approves with other arguments, by other means than the page."""
        for ticket in await self.runtime.list_tickets(TicketQuery(thread_id=thread)):
            yes = ToolCallResume.edit(arguments, reason="half of it", digest=ticket.digest)
            await self.runtime.decide(ticket.run_id, {ticket.key: yes}, principal=ANN)

    async def hostile_run(self, thread: str, texts: list[str]) -> str:
        """The id of a run in which a user, a model and a tool say these texts."""
        every = "\n".join(texts)
        deep: Any = texts[0]
        for text in texts[:80]:
            deep = {text: deep}
        self.scripts["desk-1"] = [
            said(every, ("policy", {"topic": every, texts[0]: texts[1], "deep": deep})),
            said(every),
        ]
        result = await self.runtime.run("desk", every, thread=thread)
        return result.run_id

    async def hostile_question(self, thread: str, texts: list[str]) -> str:
        """The id of a run that asks a question in these texts."""
        every = "\n".join(texts)
        self.scripts["host-1"] = [said(every, ("ask_visitor", {"what": every, texts[0]: texts}))]
        return await self.asking_run(thread)

    async def long_run(self, thread: str, calls: int) -> str:
        """The id of a finished run of so many steps with a call, and a last one."""
        call = said("I look it up.", ("policy", {"topic": "refunds"}))
        self.scripts["desk-1"] = [*[call] * calls, said("That is all.")]
        return (await self.runtime.run("desk", "Look everything up.", thread=thread)).run_id


@asynccontextmanager
async def open_shop(folder: Path, **given: Any) -> AsyncIterator[Shop]:
    """A shop that is open and served."""
    shop = Shop(folder, **given)
    async with shop.runtime, shop.client:
        await shop.start()
        try:
            yield shop
        finally:
            await shop.stop()
