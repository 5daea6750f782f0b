"""The address of a client in the audit, and the names that a server without keys answers to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stream_kit import Server, ask, failed_start, serving
from test_behind_nginx import nginx


def addresses(server: Server, *said: str) -> list[str]:
    """The addresses of the audit for requests with these words in `X-Forwarded-For`."""
    for words in said:
        head = {"x-forwarded-for": words}
        assert ask(server.address, "POST", "/v1/threads", {}, head)[0] == 201
    _, audit = ask(server.address, "GET", f"/v1/audit?limit={len(said)}")
    return [deed["address"] for deed in reversed(audit["items"])]


SAID = ("6.6.6.6", "<script>alert(1)</script>", "fe80::1%<b>", "")


def test_what_a_client_says_of_its_address_is_not_believed(tmp_path: Path) -> None:
    with serving(tmp_path / "f.db") as server:
        assert addresses(server, *SAID) == ["127.0.0.1"] * 4


def test_a_proxy_that_is_named_is_believed_and_its_words_have_to_be_an_address(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "f.db", "--proxy", "127.0.0.0/8", "--workers", "2") as server:
        assert addresses(server, *SAID) == ["6.6.6.6", "", "fe80::1", "127.0.0.1"]
        assert addresses(server, "6.6.6.6, 2001:db8::7") == ["2001:db8::7"]
    with serving(tmp_path / "g.db", "--proxy", "127.0.0.2") as server:
        assert addresses(server, "6.6.6.6") == ["127.0.0.1"]


def test_a_proxy_that_is_no_address_is_refused_at_the_start(tmp_path: Path) -> None:
    for wrong in ("nginx", "*", "127.0.0.1:80"):
        code, said = failed_start(tmp_path, "--proxy", wrong)
        assert code != 0
        assert "--proxy" in said
        assert "give an address such as 127.0.0.1" in said


@pytest.mark.anyio
async def test_behind_the_nginx_of_the_page_the_audit_has_the_address_that_nginx_saw(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "f.db", "--proxy", "127.0.0.1", "--allow-host", "*") as server:
        async with nginx(tmp_path, server.address, server.address, source="127.0.0.9") as client:
            for head in ({"x-forwarded-for": "8.8.8.8"}, {}):
                made = await client.post("/v1/threads", json={}, headers=head)
                assert made.status_code == 201
            audit = (await client.get("/v1/audit?limit=2")).json()["items"]
    assert [deed["address"] for deed in audit] == ["127.0.0.9"] * 2


def status_for(server: Server, host: str) -> tuple[int, Any]:
    port = server.address.rpartition(":")[2]
    origin = {"origin": f"http://{host}:{port}", "sec-fetch-site": "same-origin"}
    return ask(server.address, "POST", "/v1/threads", {}, {"host": f"{host}:{port}", **origin})


@pytest.mark.parametrize("words", [(), ("--no-auth",), ("--host", "0.0.0.0", "--no-auth")])
def test_a_page_of_a_name_that_was_bound_to_this_machine_is_refused(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    with serving(tmp_path / "f.db", *words) as server:
        statuses = [
            status_for(server, host)[0]
            for host in (
                "evil.example",
                "127.0.0.1.evil.example",
                "localhost",
                "127.0.0.1",
                "[::1]",
            )
        ]
        assert statuses == [403, 403, 201, 201, 201]
        refused = status_for(server, "evil.example")[1]["error"]
        assert refused["code"] == "foreign_host"
        assert "--allow-host" in refused["hint"]


def test_a_server_answers_to_the_names_that_it_is_given(tmp_path: Path) -> None:
    words = ("--no-auth", "--allow-host", "agents.example.org", "--allow-host", "agents")
    with serving(tmp_path / "f.db", *words) as server:
        hosts = ("agents.example.org", "agents", "localhost", "evil.example")
        assert [status_for(server, host)[0] for host in hosts] == [201, 201, 201, 403]
