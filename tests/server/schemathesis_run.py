"""Fuzzes the served OpenAPI document: `python schemathesis_run.py EXAMPLES`.

The server runs in a thread of this process, `schemathesis` in one of its own. It is run with the
key of an admin, once more with ids of a thread, a run and a ticket that are there, and without a
key.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from edge_kit import payer, write_keys
from server_kit import served

from awaken import Agent, Runtime
from awaken.runtime import Principal
from awaken.server import app
from awaken.server.limits import Limits
from awaken.testing import FunctionModel

CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "410", "412", "422"]

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "410", "412", "413"]
"""
"""Ids and cursors that no answer has given are well formed, and unknown all the same."""

IDS = """
[parameters]
"path.agent" = "talker"
"path.thread" = "asked"
"path.run" = "{run}"
"path.ticket" = "{ticket}"
"""

PROTOCOLS = "^/v1/(ai-sdk|ag-ui)"
BIN = Path(sys.executable).parent


async def ask(store: str) -> dict[str, str]:
    """Leave a run that waits for an approval, of an agent that the server does not have."""
    boss = Principal(id="boss", scope="acme")
    async with Runtime([payer()], store=store) as runtime:
        taken = await runtime.submit("payer", "Pay", thread="acme/asked", principal=boss)
        waiting = await runtime.wait(taken.run_id)
        return {"run": taken.run_id, "ticket": waiting.tickets[0].answered_by}


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """A server in a thread of its own, with the keys in `folder`; gives its address."""
    started, stop = threading.Event(), threading.Event()
    addresses: list[str] = []

    async def serve() -> None:
        limits = Limits(rate=1e6, burst=1_000_000)
        talker = Agent("talker", model=FunctionModel(lambda _: "Hello."), description="Says hello")
        store = f"sqlite:///{folder}/awaken.db"
        async with (
            Runtime([talker], store=store) as runtime,
            served(app(runtime, keys=folder / "keys.toml", limits=limits)) as address,
        ):
            addresses.append(address)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert started.wait(550)
        yield addresses[0]
    finally:
        stop.set()
        thread.join()


def fuzz(
    examples: int, *, phases: str, folder: Path, most: int = 4
) -> list[subprocess.CompletedProcess[str]]:
    """Run schemathesis with a key and ids, without a key, on the protocols of others, and with a
    key alone: the first `most` of these."""
    keys = write_keys(folder / "keys.toml")
    ids = asyncio.run(ask(f"sqlite:///{folder}/awaken.db"))
    plain, known = folder / "plain.toml", folder / "known.toml"
    plain.write_text(CONFIG)
    known.write_text(CONFIG + IDS.format(**ids))
    key = ["--header", f"Authorization: Bearer {keys['boss']}"]
    with running_server(folder) as address, ThreadPoolExecutor() as pool:
        options = [
            "run",
            f"{address}/v1/openapi.json",
            f"--max-examples={examples}",
            f"--phases={phases}",
            "--exclude-path=/v1/tickets/events",  # it has no end
            "--continue-on-failure",
            "--suppress-health-check=all",
            "--request-timeout=60",
            "--seed=1",
            "--no-color",
        ]
        program = str(BIN / "schemathesis")
        ours = f"--exclude-path-regex={PROTOCOLS}"  # their documents are elsewhere
        theirs = [f"--include-path-regex={PROTOCOLS}", "--checks=not_a_server_error"]
        ways: list[tuple[Path, list[str]]] = [
            (known, [*key, ours]),
            (plain, [ours]),
            (plain, [*key, *theirs]),
            (plain, [*key, ours]),
        ]
        commands = [
            [program, f"--config-file={config}", *options, *way] for config, way in ways[:most]
        ]
        return list(pool.map(lambda command: _run(command, folder), commands))


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", check=False, timeout=6_000
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        done = fuzz(
            int(sys.argv[1]), phases="examples,coverage,fuzzing,stateful", folder=Path(folder)
        )
    for one in done:
        print(one.stdout, one.stderr)
    return max(one.returncode for one in done)


if __name__ == "__main__":
    sys.exit(main())
