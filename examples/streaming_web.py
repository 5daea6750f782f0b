"""Streaming into a web handler: one HTTP request in, the run's events out as they happen.

The server is plain asyncio, to show that nothing else is needed; with a web framework, `answer`
is the part that stays. Each event of the run is one server-sent event. A client that goes away
makes `drain` raise, which leaves the stream's block, which cancels the run.
"""

import asyncio
import json
from urllib.parse import parse_qs, quote, urlsplit

from awaken import Agent, Runtime, tool
from awaken.events import dumps_text


@tool
async def weather(city: str) -> str:
    """The weather in a city, in one line."""
    return f"{city}: 21°C, sunny"


runtime = Runtime([Agent("assistant", model="demo", tools=[weather])])


async def answer(question: str, to: asyncio.StreamWriter) -> None:
    """Write a run as server-sent events."""
    to.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    async with runtime.stream("assistant", question) as events:
        async for event in events:
            to.write(f"data: {dumps_text(event.event)}\n\n".encode())
            await to.drain()


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.readuntil(b"\r\n\r\n")
    target = request.split()[1].decode()
    await answer(parse_qs(urlsplit(target).query)["q"][0], writer)
    writer.close()


async def ask(port: int, question: str) -> None:
    """What a browser does with `EventSource`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /run?q={quote(question)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    async for line in reader:
        if line.startswith(b"data: "):
            event = json.loads(line.removeprefix(b"data: "))
            print(f"{event['event_type']:<20}{event.get('delta', '')}".rstrip())
    writer.close()


async def main() -> None:
    async with runtime, await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        await ask(server.sockets[0].getsockname()[1], "What is the weather in Paris?")


if __name__ == "__main__":
    asyncio.run(main())
