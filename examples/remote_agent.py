"""An agent on another machine: asked, answered and cancelled like one that is here.

Two processes: a print shop that speaks A2A, made with the protocol's own SDK, and us. Where the
agent runs is one line; all the rest would be the same for an `Agent`.

Needs the extra `a2a` (`pip install awaken[a2a]`), and for the shop `a2a-sdk[http-server] uvicorn`.
"""

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

import uvicorn
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from starlette.applications import Starlette

from awaken import RemoteAgent, Runtime
from awaken.events import ActivitySnapshot

# -- the other side ---------------------------------------------------------------------------


class PrintShop(AgentExecutor):
    """Prints what it is told; of posters it asks how many, and a library takes for ever."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        order, task = context.get_user_input(), self._task(context, event_queue)
        if context.current_task is not None:
            await task.complete(_said(f"{order} posters are printed."))
            return
        status = pb.TaskStatus(state=pb.TaskState.TASK_STATE_SUBMITTED)
        await event_queue.enqueue_event(
            pb.Task(id=context.task_id, context_id=context.context_id, status=status)
        )
        if "posters" in order:
            await task.requires_input(_said("How many posters?"))
        elif "library" in order:
            await task.start_work(_said("volume 1 is in the press"))
            await asyncio.Event().wait()
        else:
            await task.complete(_said("The menu is printed."))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self._task(context, event_queue).cancel()
        print("the presses stand still", flush=True)

    def _task(self, context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
        return TaskUpdater(event_queue, context.task_id or "", context.context_id or "")


def _said(text: str) -> pb.Message:
    return new_text_message(text, role=pb.Role.ROLE_AGENT)


def serve() -> None:
    logging.getLogger("a2a").setLevel(logging.CRITICAL)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        card = pb.AgentCard(
            name="shop",
            description="Prints whatever you like.",
            version="1",
            supported_interfaces=[
                pb.AgentInterface(url=url, protocol_binding="HTTP+JSON", protocol_version="1.0")
            ],
            capabilities=pb.AgentCapabilities(streaming=True),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[pb.AgentSkill(id="print", name="print", description="Print.", tags=["paper"])],
        )
        handler = DefaultRequestHandler(PrintShop(), InMemoryTaskStore(), card)
        app = Starlette(routes=[*create_agent_card_routes(card), *create_rest_routes(handler)])
        print(url, flush=True)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        asyncio.run(server.serve(sockets=[listening]))


@contextmanager
def print_shop() -> Generator[IO[str]]:
    """The shop in a process of its own, and what it says there."""
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.terminate()


# -- our side ---------------------------------------------------------------------------------


async def main(url: str, shop_says: IO[str]) -> None:
    # Addresses on one's own machine have to be allowed: nobody else may lead us there.
    shop = RemoteAgent("shop", url, options={"allow_private": True})
    async with Runtime([shop]) as runtime:
        result = await runtime.run("shop", "Print the menu, please.")
        print("answered:", result.response)

        asked = await runtime.run("shop", "Print posters, please.", thread="order")
        print("asks:", asked.response)
        result = await runtime.run("shop", "200", thread="order")  # the same task goes on
        print("answered:", result.response)

        async with runtime.stream("shop", "Print a library, please.", thread="big") as events:
            async for told in events:
                match told.event:
                    case ActivitySnapshot(content={"text": str(text)}):
                        print("under way:", text)
                        break
                    case _:
                        pass
            receipt = await runtime.cancel("big")
        for item in receipt.items:
            print(f"cancelled: the {item.kind} of {item.name} was {item.outcome}")
        print("over there:", shop_says.readline().strip())


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve()
    else:
        with print_shop() as shop_says:
            asyncio.run(main(shop_says.readline().strip(), shop_says))
