"""A client is cut off, or its server is killed, behind a frame; it comes back, and misses nothing.

    python tests/server/cut_off.py                  the server is killed behind each frame
    python tests/server/cut_off.py --cut            the client is cut off, and comes back elsewhere
    python tests/server/cut_off.py --at 3,17        behind these frames

The run has three steps, a tool, and an approval. The client must end with every durable event, once
and in order, and with each answer as the log has it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from stream_kit import Client, Server, serving


@contextmanager
def new_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="awaken-cut-") as home:
        yield Path(home) / "f.db"


def undisturbed() -> int:
    """How many frames a client gets."""
    with new_file() as file, serving(file) as server:
        client = Client()
        client.submit(server.address)
        client.finish(server.address, file)
        client.check_whole(file)
        return client.frames


def read(client: Client, address: str, file: Path, frames: int) -> None:
    """Follow a run for so many frames."""
    client.submit(address)
    while client.frames < frames and not client.has_ended:
        if client.is_suspended:
            client.approve(file)
        client.follow(address, frames - client.frames)


def kill_behind(frame: int) -> None:
    """Kill the server behind a frame; another one goes on with the run."""
    with new_file() as file:
        client, first = Client(), Server(file)
        try:
            read(client, first.address, file, frame)
        finally:
            first.kill()
        with serving(file) as second:
            client.finish(second.address, file)
        client.check_whole(file)


def cut_behind(frame: int, file: Path, one: Server, other: Server) -> None:
    """Cut the client off behind a frame; it goes on with the other server, and comes back."""
    client = Client(f"t{frame}")
    read(client, one.address, file, frame)
    if not (client.has_ended or client.is_suspended):
        client.follow(other.address, 3)
    client.finish(one.address, file)
    client.check_whole(file)


def fails(deed: Callable[[], None]) -> bool:
    try:
        deed()
    except Exception:
        traceback.print_exc()
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--at", help="behind which frames, such as 3,17")
    parser.add_argument("--cut", action="store_true", help="cut the client off, kill no server")
    options = parser.parse_args()
    count = undisturbed()
    places = [int(n) for n in options.at.split(",")] if options.at else range(1, count + 1)
    if options.cut:
        with new_file() as file, serving(file) as one, serving(file) as other:
            failed = [n for n in places if fails(partial(cut_behind, n, file, one, other))]
    else:
        failed = [n for n in places if fails(partial(kill_behind, n))]
    deed = "cuts" if options.cut else "kills"
    print(f"frames {count}, {deed} {len(places)}, not whole {len(failed)} {failed or ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
