"""Agents found by their cards."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from a2a_harness import TOKEN, RunningAgent, backend_for, endpoint, root

from awaken.backend.a2a import A2aBackendFactory, RemoteSource, discover
from awaken.backend.a2a.card import agent_on_card
from awaken.backend.a2a.config import read_config
from awaken.codec import dumps
from awaken.core.spec import RemoteEndpoint
from awaken.errors import DiscoveryFailed

pytestmark = pytest.mark.anyio

BEARER = {"type": "bearer", "token": TOKEN}


def source(
    base_url: str, name: str = "lab", timeout_ms: int = 10_000, **fields: Any
) -> RemoteSource:
    return RemoteSource(name=name, endpoint=endpoint(base_url, **fields), timeout_ms=timeout_ms)


# -- the real thing ---------------------------------------------------------------------------


async def test_an_agent_is_found_by_its_card_and_runs(agent: RunningAgent) -> None:
    spec = await discover(source(f"{agent.base}/some/path", auth=BEARER))
    assert spec.id == "test-agent-no1"
    assert spec.description == "Does as it is told."
    assert spec.registry == "lab"
    assert spec.endpoint is not None
    assert spec.endpoint.base_url == agent.base
    assert spec.endpoint.options["a2a_server_id"] == "lab"
    assert spec.endpoint.options["binding"] == "HTTP+JSON"
    result = await A2aBackendFactory().build(spec.endpoint).execute_root(root("found", "say hi"))
    assert result.response == "hi"
    *_, asked = agent.log(path="/.well-known/agent-card.json")
    assert asked["headers"]["authorization"] == f"Bearer {TOKEN}"


async def test_two_sources_of_one_agent_give_two(agent: RunningAgent) -> None:
    """03/MH-5 duplicate ids from two sources are both kept."""
    found = [await discover(source(agent.base, name=name)) for name in ("lab", "field")]
    assert {(spec.registry, spec.id) for spec in found} == {
        ("lab", "test-agent-no1"),
        ("field", "test-agent-no1"),
    }


# -- cards that cannot be fetched -------------------------------------------------------------


@contextmanager
def serving(answer: bytes) -> Iterator[str]:
    """A server that says `answer` to whoever connects first."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                try:
                    connection.sendall(answer)
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


async def test_a_card_that_says_it_is_too_large_is_not_read() -> None:
    """03/MH-5 card size, by header."""
    error = pytest.raises(DiscoveryFailed, match=r"'lab': .*more than 262144 bytes")
    with serving(HEAD + b"Content-Length: 262145\r\n\r\n") as base, error:
        await discover(source(base))


async def test_a_card_that_turns_out_too_large_is_not_kept() -> None:
    """03/MH-5 card size, while reading."""
    error = pytest.raises(DiscoveryFailed, match="more than 262144 bytes")
    with serving(HEAD + b"Connection: close\r\n\r\n" + b" " * 262_145) as base, error:
        await discover(source(base))


async def test_a_server_that_says_nothing_is_waited_for_only_so_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        base = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(DiscoveryFailed, match="no answer within 50 ms"):
            await discover(source(base, timeout_ms=50))


@pytest.mark.parametrize(
    ("given", "seconds"), [(0, 0.001), (-5, 0.001), (1, 0.001), (10_000, 10), (60_000, 30)]
)
def test_the_wait_is_clamped(given: int, seconds: float) -> None:
    """03/MH-5 clamp rules."""
    assert source("http://127.0.0.1", timeout_ms=given).timeout == seconds


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "agent-card.json answered 404"),
        (HEAD + b"Content-Length: 4\r\n\r\nnope", "cannot be read"),
        (HEAD + b"Content-Length: 2\r\n\r\n[]", "no JSON object"),
        (HEAD + b'Content-Length: 3\r\n\r\n"\xe4"', "cannot be read"),
        (HEAD + b"Content-Length: 2\r\n\r\n{}", "offers no interface"),
        (
            HEAD + b'Content-Length: 454\r\n\r\n{"capabilities": {"extensions": [{"params": {"n": '
            b"%b}}]}}" % (b"7" * 400),
            "cannot be read",
        ),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
            "link-local address",
        ),
        (b"rubbish\r\n\r\n", "lost the connection"),
    ],
)
async def test_a_card_that_is_none_is_said_so(answer: bytes, error: str) -> None:
    with serving(answer) as base, pytest.raises(DiscoveryFailed, match=error):
        await discover(source(base))


async def test_private_hosts_are_refused_unless_opened(agent: RunningAgent) -> None:
    """03/MH-5 private-host rules."""
    before = len(agent.log())
    closed = RemoteEndpoint(base_url=agent.base.replace("127.0.0.1", "127.1"))
    with pytest.raises(DiscoveryFailed, match="loopback address"):
        await discover(RemoteSource(name="lab", endpoint=closed))
    assert len(agent.log()) == before


# -- what a card offers -----------------------------------------------------------------------


def interface(binding: str, version: str = "1.0", **fields: str) -> dict[str, str]:
    url = f"https://{binding.lower().replace('+', '')}{version}.example/a2a"
    return {"protocolBinding": binding, "protocolVersion": version, "url": url, **fields}


def found(*interfaces: dict[str, str], base: RemoteSource | None = None, **card: Any) -> Any:
    body = {"name": "N", "supportedInterfaces": list(interfaces), **card}
    return agent_on_card(base or source("https://agents.example"), dumps(body))


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([interface("JSONRPC"), interface("HTTP+JSON", "0.3"), interface("HTTP+JSON")], 2),
        ([interface("JSONRPC", "0.3"), interface("http+json", "0.3")], 1),
        ([interface("GRPC"), interface("JSONRPC")], 1),
        ([interface("HTTP+JSON", "0.3"), interface("JSONRPC")], 1),
    ],
)
def test_the_interface_that_suits_best_is_chosen(
    offered: list[dict[str, str]], chosen: int
) -> None:
    spec = found(*offered)
    assert spec.endpoint.base_url == offered[chosen]["url"]
    assert spec.endpoint.options["binding"] == offered[chosen]["protocolBinding"].upper()


def test_what_is_offered_instead_is_listed() -> None:
    with pytest.raises(DiscoveryFailed, match=r"offers GRPC 1.0, SOAP 2; needed is HTTP\+JSON or"):
        found(interface("GRPC"), interface("SOAP", "2"))
    old = dumps({"name": "N", "url": "https://x.example", "protocolVersion": "0.3.0"})
    with pytest.raises(DiscoveryFailed, match=r"offers JSONRPC 0.3.0; needed"):
        agent_on_card(source("https://agents.example"), old)


@pytest.mark.parametrize(
    ("name", "tenant", "id"),
    [
        ("My Agent!", "", "my-agent"),
        ("  Über--Agent 2 ", "", "uber-agent-2"),
        ("東京", "", "agent"),
        ("", "", "agent"),
        ("Named", "tenant-7", "tenant-7"),
    ],
)
def test_the_id_is_the_interfaces_else_made_of_the_name(name: str, tenant: str, id: str) -> None:
    spec = found(interface("HTTP+JSON", tenant=tenant), name=name)
    assert spec.id == id
    assert spec.endpoint.target == (tenant or None)


@pytest.mark.parametrize("tenant", ["t" * 200_000, "a\x1b[2Jb", "a\nb"])
def test_a_tenant_that_is_no_name_is_refused(tenant: str) -> None:
    with pytest.raises(DiscoveryFailed, match="the tenant on its card") as caught:
        found(interface("HTTP+JSON", tenant=tenant))
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_the_sources_own_target_and_options_are_kept() -> None:
    base = source("https://agents.example", target="mine", poll_interval_ms=77)
    spec = found(interface("HTTP+JSON", tenant="theirs"), base=base)
    assert spec.endpoint.target == "mine"
    assert spec.endpoint.options["poll_interval_ms"] == 77


@pytest.mark.parametrize("streams", [True, False])
def test_an_agent_that_does_not_stream_is_polled(streams: bool) -> None:
    spec = found(interface("HTTP+JSON"), capabilities={"streaming": streams})
    assert spec.endpoint.options.get("streaming", True) is streams


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://169.254.169.254/a2a", "link-local address"),
        ("file:///etc/passwd", "http"),
        ("python:os:system", "http"),
        ("https://a.example/?q=1", "query"),
        ("https://me:pw@a.example/", "user name"),
        ("", "http"),
    ],
)
def test_an_interface_nothing_may_go_to_is_refused(url: str, error: str) -> None:
    """03/DB-14 the policy holds for the card's interface URL."""
    with pytest.raises(DiscoveryFailed, match=error):
        found(interface("HTTP+JSON", url=url))


def test_a_card_cannot_take_the_token_elsewhere() -> None:
    """03/DB-14 the token is not sent to whatever host the card names."""
    base = source("https://agents.example/x", auth=BEARER)
    spec = found(interface("HTTP+JSON", url="https://thief.example/a2a"), base=base)
    config = read_config(spec.endpoint)
    assert config.credentials is not None
    assert not config.credentials.may_go_to(config.interface)
    assert config.credentials.audience == "https://agents.example"
    listed = source("https://agents.example/x", auth=BEARER, token_hosts=["thief.example"])
    spec = found(interface("HTTP+JSON", url="https://thief.example/a2a"), base=listed)
    config = read_config(spec.endpoint)
    assert config.credentials is not None
    assert config.credentials.may_go_to(config.interface)


async def test_the_token_stays_behind_when_the_card_names_another_host(
    agent: RunningAgent,
) -> None:
    """03/DB-14 the same, on the wire."""
    url = agent.base
    spec = found(interface("HTTP+JSON", url=url), base=source("http://agents.example", auth=BEARER))
    result = await backend_for(
        url, auth=BEARER, token_audience=spec.endpoint.options["token_audience"]
    ).execute_root(root("stays", "say behind"))
    assert result.response == "behind"
    (asked,) = agent.log(path="/message:send", text="behind")
    assert "authorization" not in asked["headers"]
