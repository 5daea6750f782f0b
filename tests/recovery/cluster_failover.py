"""A Postgres is lost under the runs of three nodes, and its standby is promoted: they go on there.

python tests/recovery/cluster_failover.py --times 20 --runs 60

The standby is synchronous, and the address of the nodes names both servers. In each round the
primary is stopped (`immediate` is like a crash), or made to refuse writes and then stopped, and the
standby is promoted after some seconds. Half of the runs are in a call then, the others commit step
after step. New runs are submitted all the while. Afterwards each run has ended once, no call was
made twice, no answer was asked for twice, and no thread is owned.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import asyncpg

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.store.threads import RunQuery
from awaken.core.value import Value
from awaken.errors import StoreUnavailable
from awaken.testing import FunctionModel, text_response, tool_call_response
from postgres_kit import Postgres, running_postgres, running_standby

CALLS = 4
NODES = 3
PATIENCE = 120.0
_SYNCHRONOUS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
HOW = ("immediate", "fast", "read-only")


class Figures(Value, frozen=True, kw_only=True):
    """What came of one failover."""

    runs: int
    ended: int
    doubled: int
    """Calls that were made twice."""
    asked_again: int
    """Answers that the model was asked for twice, beyond those of runs that were recovered."""
    lost: int
    """Outcomes of calls that are not in the log of their thread."""
    owned: int
    """Threads that are still owned by a node, or runs that are still open."""
    mended: int
    """Threads that were owned without a run."""

    @property
    def wrong(self) -> int:
        return self.runs - self.ended + self.doubled + self.lost + self.owned


async def set_up_standby(primary: Postgres) -> None:
    """Let commits on the primary wait for its standby."""
    admin = await asyncpg.connect(primary.dsn)
    await admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    await admin.execute("SELECT pg_reload_conf()")
    async with asyncio.timeout(PATIENCE):
        while not await admin.fetchval(_SYNCHRONOUS):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await admin.close()


async def lose(primary: Postgres, how: str) -> None:
    """Stop the primary, for good."""
    if how == "read-only":
        admin = await asyncpg.connect(
            primary.dsn, server_settings={"default_transaction_read_only": "off"}
        )
        await admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await admin.execute("SELECT pg_reload_conf()")
        await admin.close()
        await asyncio.sleep(1)
    signals = {"fast": signal.SIGINT}
    await asyncio.to_thread(primary.stop, signals.get(how, signal.SIGQUIT))


class Load:
    """Runs on several nodes: half of them wait in a call until `over`, the others make calls."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.made: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.over, self.all_wait = asyncio.Event(), asyncio.Event()
        self.submitted: list[str] = []
        self._waiting: set[str] = set()

    def agent(self) -> Agent:
        @tool
        async def work(number: int, ctx: ToolCallContext) -> str:
            """Count this call."""
            self.made[ctx.idempotency_key] += 1
            if number == 1 and not _is_busy(ctx.run_identity.thread_id):
                await self._wait(ctx.run_identity.thread_id)
            return f"worked {number}"

        def answer(request: InferenceRequest) -> StreamResult:
            told = [message for message in request.messages if message.role is Role.TOOL]
            key = request.routing_key
            assert key is not None
            self.asked[f"{key.run_id} {len(told)}"] += 1
            if len(told) >= CALLS and (self.over.is_set() or not _is_busy(key.thread_id or "")):
                return text_response("done")
            return tool_call_response("", "work", f"c{len(told)}", {"number": len(told)})

        return Agent("worker", model=FunctionModel(answer), tools=[work], max_rounds=100_000)

    async def _wait(self, thread_id: str) -> None:
        self._waiting.add(thread_id)
        if len(self._waiting) >= self.runs // 2:
            self.all_wait.set()
        await self.over.wait()

    async def submit(self, nodes: Sequence[Runtime], number: int) -> None:
        """Submit a run, again and again while the database is away; the key makes it one run."""
        node = nodes[number % len(nodes)]
        while True:
            try:
                run = await node.submit("worker", "go", thread=f"t{number}", key=f"k{number}")
            except StoreUnavailable:
                await asyncio.sleep(0.2)
            else:
                return self.submitted.append(run.run_id)

    async def figures(self, nodes: Sequence[Runtime]) -> Figures:
        """Wait for the ends of all runs, and count."""
        ended = lost = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                for run_id in self.submitted:
                    ended += (await nodes[0].wait(run_id)).response == "done"
        for number in range(len(self.submitted)):
            log = await nodes[0].messages(f"t{number}", limit=10_000)
            results = [message.text() for message in log if message.role is Role.TOOL]
            lost += sum(len(message.tool_calls or ()) for message in log) - len(results)
            lost += sum("worked" not in result for result in results)
        owned = len(await nodes[0].list_runs(RunQuery(status=RunStatus.RUNNING)))
        for node in nodes:
            owned += len(await node.store.list_claims())
        return Figures(
            runs=self.runs + self.runs // 4,
            ended=ended,
            doubled=sum(count - 1 for count in self.made.values()),
            asked_again=sum(count - 1 for count in self.asked.values()),
            lost=lost,
            owned=owned,
            mended=sum(node.engine.claims.mended for node in nodes),
        )


def _is_busy(thread_id: str) -> bool:
    return int(thread_id[1:]) % 2 == 0


async def fail_over(
    primary: Postgres, standby: Postgres, *, runs: int, seconds: float, how: str
) -> Figures:
    load = Load(runs)
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    address = f"postgresql://awaken@{hosts}/postgres?target_session_attrs=read-write"
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(Runtime([load.agent()], store=address))
            for _ in range(NODES)
        ]
        await set_up_standby(primary)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            for number in range(runs):
                tasks.create_task(load.submit(nodes, number))
            await load.all_wait.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(lose(primary, how))
            for number in range(runs, runs + runs // 4):
                tasks.create_task(load.submit(nodes, number))  # while the server goes
                await asyncio.sleep(0.01)
            await asyncio.sleep(seconds)
            await standby.promote()
            load.over.set()
        return await load.figures(nodes)


async def fail_over_once(*, runs: int, seconds: float, how: str) -> Figures:
    with running_postgres() as primary, running_standby(primary) as standby:
        return await fail_over(primary, standby, runs=runs, seconds=seconds, how=how)


async def main(times: int, runs: int) -> int:
    wrong = 0
    for number in range(times):
        how, seconds = HOW[number % len(HOW)], (0.5, 2.0, 5.0, 12.0)[number % 4]
        figures = await fail_over_once(runs=runs, seconds=seconds, how=how)
        print(f"{number + 1}: {how}, promoted after {seconds:g} s: {figures}", flush=True)
        wrong += figures.wrong
    print(f"{times} failovers, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--runs", type=int, default=60)
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.times, options.runs)))
