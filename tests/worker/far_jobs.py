"""A service that outlives who asks it: jobs are files, so that every process finds them.

Run as a program it is a process that asks the service, and is killed on the way:
`far_jobs.py HOME POINT CONTINUES TEXT…`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from far_kit import LASTING, FarBackend, can, runtime_of, says

from awaken import Message, Runtime
from awaken.backend import (
    BackendAbortRequest,
    BackendCapabilities,
    BackendRootRunRequest,
    BackendRunResult,
)

BEGUN, SAVED = "begun", "saved"
JOB = "job"


class Jobs(FarBackend):
    """Starts a job for each run, and says what came of it.

    Args:
        die_at: where the process that asks is killed, at the last of its prompts.
        lasting: whether a job that was started can be found again.
        abilities: what it can do, if that is neither all nor nothing.
    """

    def __init__(
        self,
        home: Path,
        *,
        die_at: str = "",
        lasting: bool = True,
        abilities: BackendCapabilities | None = None,
    ) -> None:
        super().__init__(can=abilities or (LASTING if lasting else can()))
        self._home = home
        self._die_at = die_at

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        self.requests.append(request)
        self._reached(BEGUN, request)
        known = request.persisted_state.extensions if request.persisted_state else {}
        job: str | None = known.get(JOB) if request.is_continuation else None
        if job is None:
            job = f"job-{len(jobs_in(self._home)) + 1}"
            asked = " + ".join(message.text() for message in request.new_messages)
            (self._home / job).write_text(asked)
            assert request.save_state is not None
            await request.save_state({JOB: job})
        self._reached(SAVED, request)
        return says(f"{job}: {(self._home / job).read_text()}")

    async def abort(self, request: BackendAbortRequest) -> None:
        self.aborts.append(request)
        state = request.persisted_state
        job = state.extensions[JOB] if state is not None else "nothing"
        (self._home / job).write_text("aborted")

    def _reached(self, point: str, request: BackendRootRunRequest) -> None:
        if point == self._die_at and request.new_messages[-1].text().endswith("!"):
            os.kill(os.getpid(), signal.SIGKILL)


def jobs_in(home: Path) -> dict[str, str]:
    """Every job that was started, and what became of it."""
    return {path.name: path.read_text() for path in sorted(home.glob("job-*"))}


def runtime_in(home: Path, jobs: Jobs, *, recover: bool = True) -> Runtime:
    return runtime_of(jobs, store=f"sqlite:///{home / 'awaken.db'}", recover=recover)


async def killed(home: Path, point: str, *texts: str, lasting: bool = True) -> None:
    """Let another process ask for this, one after the other, and be killed at the last of it.

    A text with a `|` in it is asked for as two messages.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable, __file__, str(home), point, str(int(lasting)), *texts
    )
    async with asyncio.timeout(100):
        assert await child.wait() == -signal.SIGKILL


async def _main(home: Path, point: str, lasting: bool, texts: list[str]) -> None:
    async with runtime_in(home, Jobs(home, die_at=point, lasting=lasting)) as runtime:
        for text in texts:
            said = [Message.user(part) for part in text.split("|")]
            await runtime.run("far", said, thread="t")


if __name__ == "__main__":
    place, at, continues, *prompts = sys.argv[1:]
    asyncio.run(_main(Path(place), at, continues == "1", prompts))
