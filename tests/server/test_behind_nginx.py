"""A real nginx in front of two servers, with the configuration of the page."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from server_kit import served
from test_streams import Gated, Heard

from awaken import Agent, Runtime
from awaken.server import app
from nginx_kit import open_nginx
from tls_kit import make_certificate

PAGE = Path(__file__).parents[2] / "docs" / "nginx.md"


def configuration(port: int, upstream: list[str], certificate: Path) -> str:
    """The blocks of the page put together, with the ports and files of the test."""
    site, two, line = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    text: str = two + site[site.index("server {") :].replace("location / {", "location / {" + line)
    for written, real in (
        ("127.0.0.1:8700", upstream[0]),
        ("127.0.0.1:8701", upstream[1]),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/agents.pem", str(certificate)),
        ("/etc/ssl/agents.key", str(certificate.with_suffix(".key"))),
    ):
        assert text.count(written) == 1, written
        text = text.replace(written, real)
    return text


@asynccontextmanager
async def nginx(
    folder: Path, *servers: str, source: str = "127.0.0.1"
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of nginx at the address `source`; nginx passes requests on to these servers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    certificate = make_certificate(folder)
    upstream = [address.removeprefix("http://") for address in servers]
    async with open_nginx(folder, configuration(port, upstream, certificate), port):
        trusts = ssl.create_default_context(cafile=str(certificate))
        async with httpx2.AsyncClient(
            base_url=f"https://127.0.0.1:{port}",
            timeout=550,
            transport=httpx2.AsyncHTTPTransport(verify=trusts, local_address=source),
        ) as client:
            yield client


@pytest.mark.anyio
async def test_the_pages_nginx_streams_limits_and_passes_over_a_server_that_stops(
    tmp_path: Path,
) -> None:
    """A piece of an answer comes before the next one is written; while one server drains, the
    other one is asked."""
    model, store = Gated(2), f"sqlite:///{tmp_path}/f.db"
    agents = [Agent("a", model=model)]
    stream = {"accept": "text/event-stream"}
    async with Runtime(agents, store=store) as one, Runtime(agents, store=store) as two:
        first = app(one)
        async with (
            served(first) as here,
            served(app(two)) as there,
            nginx(tmp_path, here, there) as client,
        ):
            said = {"messages": ["go"]}
            async with client.stream(
                "POST", "/v1/threads/t/runs", json=said, headers=stream
            ) as answer:
                assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
                heard = Heard(answer)
                for _ in range(2):
                    model.go.release()
                    await heard.until("word")
                await heard.until("run_finish")
            large = await client.post("/v1/ai-sdk/chat", content=b" " * (16 * 1024 * 1024 + 1))
            assert large.status_code == 413
            model.go = asyncio.Semaphore(1_000)
            await one.drain(0)
            statuses = [
                (await client.post(f"/v1/threads/u{n}/runs", json=said)).status_code
                for n in range(4)
            ]
            assert statuses == [202] * 4
            assert 'status="503"' in first.state.observer.metrics.text()
