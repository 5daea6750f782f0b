"""Answers cut at every byte, in every dialect: the text is whole, no call is lost or doubled.

Run it as `python tests/models/cut_bytes.py`, with a number to take only every so many bytes.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from cut_dialects import BROKEN
from cut_play import cuts_in, opened
from cut_stage import BOTH, CHUNK, END, Recordings, fixtures
from mock_server import MockServer


async def main(every: int) -> int:
    problems = 0
    with MockServer(fixtures(), chunk_size=CHUNK) as mock, TemporaryDirectory() as folder:
        recordings = Recordings(mock)
        for name, dialect in BROKEN.items():
            cuts = 0
            async with opened(recordings, Path(folder), name) as play:
                for part in (BOTH, END):
                    for cut in cuts_in(await recordings.events(dialect, part), every):
                        cuts += 1
                        if problem := await play.run({part: [cut]}):
                            problems += 1
                            print(f"{name}, {part}, {cut}: {problem}", flush=True)
            print(f"{name}: {cuts} cuts, {problems} problems so far", flush=True)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)))
