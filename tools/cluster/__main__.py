"""`make cluster`: watch three nodes on one Postgres, and kill the one that answers.

In a terminal with a browser, the console of a node is opened, and Enter kills the node that
answers; the page goes on by itself. Elsewhere it plays in the terminal, and ends.

    PYTHONPATH=tests:tests/stores:tools python -m cluster [--console | --terminal]
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nats_kit import open_server
from rich.console import Console
from rich.text import Text

from awaken.cli.output import has_browser, open_console, open_page
from awaken.cli.stdin_lines import is_tty
from awaken.core.secret import redact_address
from awaken.server.console import Pages
from awaken.stores.postgres import PostgresStore
from cluster.client import Client
from cluster.front import Front
from cluster.nodes import Nodes, running_nodes
from cluster.story import QUESTION, THREAD, Cluster, attend, play
from postgres_kit import running_postgres

NODES = 3


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--console", action="store_true", help="in the browser, until Ctrl-C")
    parser.add_argument("--terminal", action="store_true", help="in the terminal, to its end")
    parser.add_argument("--no-open", action="store_true", help="print the address of the page only")
    parser.add_argument("--lease", type=float, default=3.0, help="seconds a node counts as alive")
    parser.add_argument("--pace", type=float, default=0.12, help="seconds between two words")
    return parser.parse_args()


async def main(given: argparse.Namespace) -> int:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    console = open_console(sys.stdout)
    in_browser = given.console or (not given.terminal and is_tty() and has_browser())
    if in_browser and not Pages().is_there:
        console.print("the page needs libraries that `make console` fetches; here is the text")
        in_browser = False
    try:
        async with opened(given, console) as (nodes, client, cluster, address):
            if not in_browser:
                return 0 if await play(cluster, client, nodes, console) else 1
            await client.ask(THREAD, QUESTION)
            link = f"{address}/console/threads/{THREAD}"
            console.print(f"\nthe page is open: {link}")
            if given.no_open or not open_page(link):
                console.print("open this address in a browser")
            console.print("Enter kills the node that answers; stop with Ctrl-C")
            sys.stdout.flush()
            await attend(cluster, client, THREAD)
    except asyncio.CancelledError:
        console.print("\nstopped")
    return 0


@asynccontextmanager
async def opened(
    given: argparse.Namespace, console: Console
) -> AsyncIterator[tuple[Nodes, Client, Cluster, str]]:
    """Start everything; it is gone with the block."""
    console.print(Text("awaken cluster", "bold"))
    console.print(Text("The model is scripted; servers, nodes and kills are real.", "dim"))
    with (
        running_postgres() as postgres,
        open_server() as nats,
        tempfile.TemporaryDirectory(prefix="awaken-cluster-") as home,
    ):
        store_address = f"{postgres.dsn}?lease={given.lease}"
        bus_address = nats.address("cluster")
        console.print(f"  postgres  {redact_address(store_address)}")
        console.print(f"  nats      {redact_address(bus_address)}")
        async with running_nodes(
            store_address, bus_address, Path(home), count=NODES, pace=given.pace
        ) as nodes:
            for node in nodes.living:
                console.print(f"  node      http://127.0.0.1:{node.port}, pid {node.pid}")
            front = Front(lambda: nodes.ports)
            await front.open()
            console.print(f"  front     {front.address} gives each client a node that lives")
            client, store = Client(front.address), PostgresStore(store_address)
            try:
                yield nodes, client, Cluster(nodes, store, console), front.address
            finally:
                front.close()
                await client.close()
                await store.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(options())))
