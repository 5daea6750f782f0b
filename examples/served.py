"""Agents over HTTP, in one command: `awaken serve examples/served.py`.

The server needs nothing but the agent below. Run as a program, this file starts that server and is
a client of it: it asks for a run and follows it as server-sent events.
"""

import json
import subprocess
import sys
import tempfile
from urllib.request import Request, urlopen

from awaken import Agent, tool


@tool
async def weather(city: str) -> str:
    """The weather in a city, in one line."""
    return f"{city}: 21°C, sunny"


def is_much(amount: int, to: str) -> bool:
    return amount > 100


@tool(needs_approval=is_much)
async def pay(amount: int, to: str) -> str:
    """Pay somebody an amount of euros."""
    return f"paid {amount} € to {to}"


clerk = Agent("clerk", model="demo", tools=[weather, pay])


def ask(address: str, thread: str, text: str) -> None:
    """Ask for a run, and print what it tells."""
    request = Request(
        f"{address}/v1/threads/{thread}/runs",
        data=json.dumps({"messages": [text]}).encode(),
        headers={"content-type": "application/json", "accept": "text/event-stream"},
    )
    with urlopen(request) as answer:
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line.removeprefix(b"data: "))["event"]
            if event["event_type"] == "tool_call_ready":
                print("calls", event["name"], event["arguments"])
            elif event["event_type"] == "run_finish":
                asked = [ticket["message"] for ticket in event.get("tickets", [])]
                print("asks:" if asked else "says:", *asked or [event["result"]["response"]])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "awaken.cli", "serve", __file__, "--port", "0"]
        command += ["--log", "none", "--store", f"sqlite:///{folder}/awaken.db"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            ask(address, "trip", "What is the weather in Paris?")
            ask(address, "bill", "Please pay 500 euros to Bob")
        finally:
            server.terminate()
            server.communicate()


if __name__ == "__main__":
    main()
