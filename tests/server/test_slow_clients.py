"""Clients that keep their requests open: they take their own share of the server and no more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from edge_kit import Desk, code_of, open_desk, slow, talker

from awaken.server.limits import Limits

pytestmark = pytest.mark.anyio

SAID = {"agent_id": "talker", "messages": ["Hi"]}


class Half:
    """A connection with a request whose body does not end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def status(self, piece: bytes = b"") -> int:
        """The status of the answer; `piece` is sent again and again until it is there."""
        answer = asyncio.ensure_future(self._reader.readuntil(b"\r\n"))
        while piece and not answer.done():
            with contextlib.suppress(ConnectionError):
                self.writer.write(piece)
                await self.writer.drain()
            await asyncio.wait([answer], timeout=0.01)
        return int((await answer).split()[1])


@contextlib.asynccontextmanager
async def half(
    desk: Desk, path: str, who: str | None = None, length: int = 1_000
) -> AsyncIterator[Half]:
    host, port = desk.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    key = f"authorization: Bearer {desk.keys[who]}\r\n" if who is not None else ""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{key}content-length: {length}\r\n\r\n{{"
    writer.write(head.encode())
    try:
        yield Half(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize("piece", [b"", b" "], ids=["stops", "comes byte by byte"])
async def test_a_body_that_comes_too_slowly_is_refused(tmp_path: Path, piece: bytes) -> None:
    async with open_desk(tmp_path, limits=Limits(body_seconds=0.2)) as desk:
        async with half(desk, "/v1/threads", "developer", 1_000_000) as one:
            assert await one.status(piece) == 408
        assert (await desk.runtime.list_threads()).items == ()
        large = {**SAID, "messages": ["x" * 1_000_000]}
        quick = await desk.ask("developer", "POST", "/v1/threads/t/runs", json=large)
        assert quick.status_code == 202


async def test_strangers_with_half_bodies_take_nothing_from_keys_and_from_health(
    tmp_path: Path,
) -> None:
    async with (
        open_desk(tmp_path, limits=Limits(connections=30)) as desk,
        contextlib.AsyncExitStack() as halves,
    ):
        for _ in range(20):
            await halves.enter_async_context(half(desk, "/v1/session"))
        while (stranger := await desk.ask(None, "GET", "/v1/openapi.json")).status_code != 429:
            assert stranger.status_code in (200, 401), "the strangers are not all there yet"
        assert code_of(stranger) == "too_many_connections"
        for who, path in (
            ("developer", "/v1/threads"),
            ("stranger", "/v1/threads"),
            (None, "/health/live"),
            (None, "/health/ready"),
        ):
            assert (await desk.ask(who, "GET", path)).status_code == 200, path


async def test_one_tenant_takes_its_share_and_no_more(tmp_path: Path) -> None:
    released = asyncio.Event()
    agents = (talker(), slow(released))
    async with open_desk(tmp_path, agents=agents, limits=Limits(connections=6)) as desk:
        asked = {"agent_id": "slow", "messages": ["Hi"]}
        path = "/v1/threads/{}/runs?wait=500"
        async with asyncio.TaskGroup() as group:
            waits = [
                group.create_task(desk.ask("page", "POST", path.format(f"w{n}"), json=asked))
                for n in range(3)
            ]
            while (mine := await desk.ask("viewer", "GET", "/v1/threads")).status_code != 429:
                pass
            assert code_of(mine) == "too_many_connections"
            for _ in range(3):
                other = await desk.ask("stranger", "GET", "/v1/threads")
                assert other.status_code == 200
            released.set()
            for run in await desk.runtime.list_runs():
                await desk.runtime.cancel(run.run_id)
            for wait in waits:
                assert (await wait).status_code == 200
        assert (await desk.ask("viewer", "GET", "/v1/threads")).status_code == 200


async def test_anyone_may_send_one_word_to_begin_a_session_and_no_more(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        answer = await desk.ask(None, "POST", "/v1/session", json={"word": "x" * 5_000})
    assert (answer.status_code, code_of(answer)) == (413, "body_too_large")
