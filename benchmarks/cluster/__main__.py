"""What many machines cost: `make bench-cluster`.

    python -m benchmarks.cluster                 all rows; ten minutes on two quiet cores
    python -m benchmarks.cluster --only commits --sizes 0 4000

Postgres comes from a wheel, with `fsync` on, on this machine: its CPU is that of all its processes.
The figures of one run belong together; compare them with each other, never with another machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "stores"), str(TESTS / "recovery")]

from across_nodes import deaf_nodes, figures, shown, two_nodes  # noqa: E402
from cluster_kills import fight, middle  # noqa: E402
from nats_kit import open_server  # noqa: E402

from benchmarks.cluster import commits, nodes  # noqa: E402
from benchmarks.cluster.meters import REAL  # noqa: E402
from postgres_kit import Postgres, running_postgres  # noqa: E402

ROWS = ("commits", "nodes", "words", "takeovers", "rest")
RUNS = 200
"""Of two nodes, one of which ends."""


async def main(options: argparse.Namespace) -> None:
    with running_postgres(**REAL) as server, tempfile.TemporaryDirectory() as folder:
        if "commits" in options.only:
            for line in await commits.table(server, Path(folder), options.sizes):
                print(line, flush=True)
            size, trips = await commits.wire_bytes(server)
            print(f"on the wire, alone: {size / 1000:.2f} KB and {trips:.2f} trips a commit\n")
        if "nodes" in options.only:
            for line in await nodes.throughput(server, Path(folder), (1, 2, 4)):
                print(line, flush=True)
        if "words" in options.only:
            await words(server, options.times)
        if "takeovers" in options.only:
            await takeovers(server, options.times)
    if "rest" in options.only:
        # A server of its own: the other one still cleans up after what it did.
        with running_postgres(**REAL) as server:
            print(await nodes.rest(server, options.seconds), flush=True)


async def words(server: Postgres, times: int) -> None:
    """06/CL-6: median, 99 of 100, and worst."""
    with open_server() as nats:
        for name, bus in (("NOTIFY", None), ("NOTIFY, with NATS as bus", nats.address())):
            address = server.address()
            async with two_nodes(address, address, bus) as pair:
                print(f"{name}: {shown(await figures(pair, times, 't'))}", flush=True)
    async with deaf_nodes(server) as pair:
        print(f"every hint lost: {shown(await figures(pair, max(times // 10, 1), 't'))}")


async def takeovers(server: Postgres, times: int) -> None:
    """06/CL-4, 06/CL-5: from the death of a node, or from the end of the step after which a node
    has left a run, to the run's first step elsewhere."""
    for how, name in (("kill", "kill -9"), ("term", "SIGTERM")):
        waits: list[float] = []
        wrong = seed = 0
        while len(waits) < times and seed < times:
            found = await fight(server.address(), RUNS, seed, how=how, pause=2.0)
            waits += found.waits
            wrong += found.stuck + found.doubled + found.lost
            seed += 1
        print(
            f"{name}: {len(waits)} runs of {seed} nodes, {wrong} wrong: {middle(waits)}", flush=True
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--sizes", type=int, nargs="+", default=commits.SIZES)
    parser.add_argument(
        "--times",
        type=int,
        default=200,
        help="samples of each word, and of runs that go on elsewhere",
    )
    parser.add_argument("--seconds", type=float, default=20, help="of rest")
    parser.add_argument("--node", metavar="ADDRESS", help="be a node of the row `nodes`")
    options = parser.parse_args()
    asyncio.run(nodes.node(options.node) if options.node else main(options))
