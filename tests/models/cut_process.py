"""Processes that ask a model and are killed while it answers.

It reads one line of JSON for each process: the `dialect`, the `url` of the stage, a new `folder` to
work in. It says the process's id, "kept" whenever all that has come of an answer is on disk, and
"dead" once the process is. They are forks, since to load the SDKs takes far longer than all the
rest.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path

from cut_client import booker
from cut_dialects import DIALECTS
from cut_stage import QUESTION

from awaken import Runtime
from awaken.core.answer_builder import StreamAccumulator
from awaken.engine import stream_log
from awaken.models import idle_timeout

SDKS = ("openai", "anthropic", "google.genai", "awaken.stores.sqlite")


class Telling(stream_log.StreamLog):
    """Says so when nothing has come since the last piece was kept."""

    def look(self, heard: StreamAccumulator) -> None:
        known, quiet = self._number, self._writing is not None and self._writing.done()
        super().look(heard)
        if quiet and self._number == known:
            print("kept", flush=True)


async def main(dialect: str, url: str, folder: Path) -> None:
    spoken = DIALECTS[dialect]
    agent = booker(folder / "bookings", spoken.model)
    models = {spoken.model: spoken.open(url)}
    async with Runtime([agent], models=models, store=f"sqlite:///{folder / 'a.db'}") as runtime:
        await runtime.run("a", QUESTION, thread="t")


def fork(dialect: str, url: str, folder: str) -> None:
    Path(folder).mkdir()
    process = os.fork()
    if not process:
        try:
            asyncio.run(main(dialect, url, Path(folder)))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)  # it was to be killed
    print(process, flush=True)
    os.waitpid(process, 0)
    print("dead", flush=True)


if __name__ == "__main__":
    for sdk in SDKS:
        import_module(sdk)
    idle_timeout.CHECK_SECONDS, stream_log.KEPT_AT_LOOK = 0.05, 1
    import_module("awaken.engine.live_answer").StreamLog = Telling  # type: ignore[attr-defined]
    for line in sys.stdin:
        fork(**json.loads(line))
