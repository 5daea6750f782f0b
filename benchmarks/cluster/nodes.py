"""Nodes at work, each in a process of its own, and nodes at rest."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg

from awaken import Runtime
from awaken.stores.postgres import migrate_address
from benchmarks.cluster.meters import metered
from benchmarks.durable.ours import StepModel, agent
from postgres_kit import Postgres

STEPS = 20
RUNS = 50
"""At once, on each node."""
RESTING = 20


async def node(address: str) -> None:
    """Warm up, wait for a word on standard input, run, and say what CPU that took."""
    bench = agent(StepModel(STEPS), STEPS)
    async with Runtime([bench], store=address) as runtime:
        await runtime.run("bench", "go")
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        before = time.process_time()
        await asyncio.gather(*(runtime.run("bench", "go") for _ in range(RUNS)))
        print(time.process_time() - before, flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def _start(address: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.cluster", "--node", address),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def _work(address: str, count: int) -> tuple[float, float]:
    """Steps a second of all nodes together, and seconds of their CPU for a step."""
    nodes = [await _start(address) for _ in range(count)]
    began = time.perf_counter()
    spent = 0.0
    for process in nodes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
    for process in nodes:
        assert process.stdout is not None
        spent += float(await process.stdout.readline())
    took = time.perf_counter() - began
    for process in nodes:
        await process.communicate(b"\n")
    steps = count * RUNS * STEPS
    return steps / took, spent / steps


async def throughput(server: Postgres, folder: Path, counts: tuple[int, ...]) -> list[str]:
    """The table, in Markdown."""
    lines = [
        "| nodes | steps/s | nodes' CPU ms a step | server's | SQLite: steps/s | CPU ms a step |",
        "|---|---|---|---|---|---|",
    ]
    for count in counts:
        async with metered(server) as meter:
            before = await meter.take()
            rate, cpu = await _work(server.address(), count)
            spent = (await meter.take()).since(before)
        there = spent.server / (count * RUNS * STEPS)
        file = f"sqlite:///{folder / f'nodes-{count}.db'}"
        beside, beside_cpu = await _work(file, count)
        lines.append(
            f"| {count} | {rate:,.0f} | {cpu * 1e3:.3f} | {there * 1e3:.3f} | "
            f"{beside:,.0f} | {beside_cpu * 1e3:.3f} |"
        )
    return lines


async def rest(server: Postgres, seconds: float) -> str:
    """06/CL-22: what nodes cost that have nothing to do."""
    address = server.address(pool=2)
    # What a session has written is counted when it ends, or when it is used again.
    await migrate_address(address)
    async with AsyncExitStack() as stack:
        for _ in range(RESTING):
            runtime = Runtime([agent(StepModel(1), 1)], store=address)
            await stack.enter_async_context(runtime)
        async with metered(server) as meter:
            await asyncio.sleep(5)
            await meter.settle()
            before_rows, before = await written(server, address), await meter.take()
            await asyncio.sleep(seconds)
            spent, after = (await meter.take()).since(before), await written(server, address)
    rows = {name: after[name] - before_rows[name] for name in after}
    renewals = rows.pop("nodes")
    others = ", ".join(f"{name} {count}" for name, count in rows.items() if count) or "none"
    return (
        f"{RESTING} nodes at rest: {100 * spent.server / spent.wall:.2f} % of a core, "
        f"{renewals / spent.wall:.1f} renewals/s, WAL {spent.written / spent.wall:,.0f} bytes/s "
        f"({spent.written / max(renewals, 1):.0f} a renewal), other rows written: {others}"
    )


async def written(server: Postgres, address: str) -> dict[str, int]:
    """How many rows were written in each table of an address's schema."""
    schema = address.partition("schema=")[2].partition("&")[0]
    connection = await asyncpg.connect(server.dsn)
    try:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        rows = await connection.fetch(
            "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables "
            "WHERE schemaname = $1",
            schema,
        )
        return dict(map(tuple, rows))
    finally:
        await connection.close()
