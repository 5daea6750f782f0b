"""Fuzzes the served OpenAPI document: `python schemathesis_run.py EXAMPLES [all]`.

The server runs in a thread of this process, `schemathesis` in one of its own. It is run with the
key of an admin, and without a key.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from edge_kit import talker, write_keys
from server_kit import served

from awaken import Runtime
from awaken.server import app
from awaken.server.limits import Limits

CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "410", "412", "422"]

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "410", "412", "413"]
"""
"""Ids and cursors that no answer has given are well formed, and unknown all the same."""

PROTOCOLS = "^/v1/(ai-sdk|ag-ui)"
BIN = Path(sys.executable).parent


def fuzz(examples: int, *, phases: str, folder: Path) -> list[subprocess.CompletedProcess[str]]:
    """Run schemathesis with a key and without one, and on the protocols of others."""
    started, stop = threading.Event(), threading.Event()
    addresses: list[str] = []
    keys = write_keys(folder / "keys.toml")

    async def serve() -> None:
        limits = Limits(rate=1e6, burst=1_000_000)
        store = f"sqlite:///{folder}/awaken.db"
        async with (
            Runtime([talker(1_000_000)], store=store) as runtime,
            served(app(runtime, keys=folder / "keys.toml", limits=limits)) as address,
        ):
            addresses.append(address)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert started.wait(60)
        config = folder / "schemathesis.toml"
        config.write_text(CONFIG)
        command = [
            str(BIN / "schemathesis"),
            f"--config-file={config}",
            "run",
            f"{addresses[0]}/v1/openapi.json",
            f"--max-examples={examples}",
            f"--phases={phases}",
            "--exclude-path=/v1/tickets/events",  # it has no end
            "--continue-on-failure",
            "--suppress-health-check=all",
            "--request-timeout=60",
            "--seed=1",
            "--no-color",
        ]
        key = ["--header", f"Authorization: Bearer {keys['boss']}"]
        # What protocols of others send is described in their own documents.
        ours, theirs = f"--exclude-path-regex={PROTOCOLS}", f"--include-path-regex={PROTOCOLS}"
        ways = [
            [*key, ours],
            [ours],
            [*key, theirs, "--checks=not_a_server_error"],
        ]
        return [
            subprocess.run(
                [*command, *way],
                cwd=folder,
                capture_output=True,
                encoding="utf-8",
                check=False,
                timeout=3_000,
            )
            for way in ways
        ]
    finally:
        stop.set()
        thread.join()


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
