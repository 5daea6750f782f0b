"""The edge: keys, roles, scopes, hosts, origins and limits, on every route of the table."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from edge_kit import Desk, code_of, open_desk, talker
from server_kit import served

from awaken import Runtime
from awaken.domain.principal import Principal
from awaken.errors import ConfigError
from awaken.server import app
from awaken.server.errors import Refused
from awaken.server.keys import NO_TERMS
from awaken.server.limits import Limits
from awaken.server.routes import ROUTES
from awaken.server.table import Role, Route
from awaken.server.tokens import Tokens
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio

SAID = {"agent_id": "talker", "messages": ["Hi"]}
STREAM = {"accept": "text/event-stream"}
WITH_KEY = [route for route in ROUTES if route.needs]
BODIES: dict[str, Any] = {
    "RunAsked": SAID,
    "NewRunAsked": SAID,
    "MessagesGiven": {"messages": ["Hi"]},
    "ThreadAsked": {},
    "ThreadChanges": {"title": "stolen"},
    "ForkAsked": {},
    "TokenAsked": {"thread_id": "t"},
    "SessionAsked": {},
}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as opened:
        yield opened


def request_to(route: Route, ids: dict[str, str]) -> dict[str, Any]:
    """A request to a route that would be carried out, with these ids in its path."""
    path = route.path
    for name, id in ids.items():
        path = path.replace("{" + name + "}", id)
    asked: dict[str, Any] = {"method": route.method, "path": path}
    if route.body is not None:
        name = getattr(route.body, "__name__", "")
        decision = {"ticket": ids["ticket"], "action": "approve", "digest": "0" * 32}
        asked["json"] = BODIES.get(name, [decision])
    return asked


async def _ids(desk: Desk) -> dict[str, str]:
    ticket = await desk.ticket("secret-thread")
    return {
        "thread": "secret-thread",
        "run": ticket["run_id"],
        "ticket": ticket["key"],
        "agent": "talker",
        "step": "1",
    }


async def _everything(runtime: Runtime) -> Any:
    threads = (await runtime.list_threads()).items
    runs = (await runtime.list_runs()).items
    tickets = (await runtime.list_tickets()).items
    return msgspec.json.encode((threads, runs, tickets))


async def test_every_route_refuses_who_may_not_use_it_and_writes_nothing(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """06/SV-26: no key, a wrong one, another scope's, one without the role: 401, 401, 404, 403."""
    caplog.set_level(logging.DEBUG)
    ids = await _ids(desk)
    before = await _everything(desk.runtime)
    without_role = {Role.INVOKE: "approver", Role.READ: "approver", Role.ADMIN: "developer"}
    for route in WITH_KEY:
        asked = request_to(route, ids)
        missing = await desk.ask(None, **asked)
        wrong = await desk.ask("nobody", **asked)
        assert (missing.status_code, wrong.status_code) == (401, 401), route.path
        assert missing.headers["www-authenticate"] == "Bearer"
        if "{thread}" in route.path or "{run}" in route.path or "{ticket}" in route.path:
            if route.method == "POST" and route.path.endswith("{thread}/runs"):
                continue  # each tenant has a thread of this name, if it wants
            foreign = await desk.ask("stranger", **asked)
            assert (foreign.status_code, code_of(foreign)) == (404, "not_found"), route.path
        lacking = next((who for role, who in without_role.items() if route.needs == (role,)), None)
        if route.needs == (Role.INVOKE, Role.READ):
            lacking = "approver"
        if lacking is not None:
            refused = await desk.ask(lacking, **asked)
            assert (refused.status_code, code_of(refused)) == (403, "missing_role"), route.path
    assert await _everything(desk.runtime) == before
    secrets = [key.split("_", 2)[2] for key in desk.keys.values()]
    assert not [
        record for record in caplog.records if any(s in record.getMessage() for s in secrets)
    ]


async def test_nothing_of_a_scope_is_in_an_answer_to_another(desk: Desk) -> None:
    """06/SV-27: the whole table is walked by two keys over the same ids."""
    ids = await _ids(desk)
    for route in WITH_KEY:
        if route.path.endswith("tickets/events"):
            continue  # it never ends; test_own_api follows it
        answer = await desk.ask("stranger", **request_to(route, ids))
        # The id that the client itself has sent may be repeated to it.
        said = answer.text.replace("secret-thread", "", 9)
        for secret in ("acme", "Pay 5", "euros", "developer"):
            assert secret not in said, (route.path, answer.text)
    own = await desk.ask("boss", "GET", "/v1/threads")
    assert [thread["id"] for thread in own.json()["items"]] == ["secret-thread"]
    assert "acme" not in own.text


async def test_a_key_that_may_only_invoke_sees_its_own_threads_alone(desk: Desk) -> None:
    await desk.ask("developer", "POST", "/v1/threads/theirs/runs?wait=30", json=SAID)
    await desk.ask("page", "POST", "/v1/threads/mine/runs?wait=30", json=SAID)
    threads = (await desk.ask("page", "GET", "/v1/threads")).json()["items"]
    runs = (await desk.ask("page", "GET", "/v1/runs")).json()["items"]
    assert [thread["id"] for thread in threads] == ["mine"]
    assert [run["thread_id"] for run in runs] == ["mine"]
    for method, path in (("GET", ""), ("GET", "/messages"), ("POST", "/runs"), ("POST", "/fork")):
        body = {"json": SAID if path == "/runs" else {}} if method == "POST" else {}
        answer = await desk.ask("page", method, f"/v1/threads/theirs{path}", **body)
        assert answer.status_code == 404, path


async def test_an_approval_needs_the_role_to_decide(desk: Desk) -> None:
    ticket = await desk.ticket("t", who="page")
    yes = [{"ticket": ticket["key"], "action": "approve", "digest": ticket["digest"]}]
    answer = await desk.ask("page", "POST", f"/v1/runs/{ticket['run_id']}/decisions", json=yes)
    assert (answer.status_code, code_of(answer)) == (403, "missing_role")


async def test_a_key_may_be_narrowed_to_agents(tmp_path: Path) -> None:
    auth = Named(agents=("talker",))
    async with (
        Runtime([talker(), talker_named("other")]) as runtime,
        served(app(runtime, auth=auth)) as address,
        client_of(address) as client,
    ):
        refused = await client.post("/v1/threads/a/runs", json={**SAID, "agent_id": "other"})
        taken = await client.post("/v1/threads/b/runs?wait=30", json={"messages": ["Hi"]})
        listed = await client.get("/v1/agents")
        await runtime.run("other", "Hi", thread="c")
        hidden = await client.get("/v1/threads/c")
        threads = await client.get("/v1/threads")
    assert (refused.status_code, code_of(refused)) == (404, "agent_not_found")
    assert taken.json()["response"] == "Hello."
    assert [agent["id"] for agent in listed.json()["items"]] == ["talker"]
    assert hidden.status_code == 404
    assert [thread["id"] for thread in threads.json()["items"]] == ["b"]


class Named:
    """Somebody's own authenticator."""

    def __init__(self, **fields: Any) -> None:
        self._who = Principal(id="ann", roles=("admin",), **fields)

    def authenticate(self, head: Any) -> Principal | None:
        return self._who


def talker_named(name: str) -> Any:
    agent = talker()
    return type(agent)(name, model=agent.model)


def client_of(address: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=address, timeout=30)


async def test_foreign_origins_and_hosts_are_refused_on_every_route(tmp_path: Path) -> None:
    """06/SV-28."""
    async with Runtime([talker()]) as runtime:
        listed = app(runtime, cors_origins=["https://good.example"])
        async with served(listed) as address, client_of(address) as client:
            for route in ROUTES:
                asked = request_to(
                    route, {"thread": "t", "run": "r", "ticket": "k", "agent": "talker"}
                )
                for header in (
                    {"origin": "https://evil.example"},
                    {"origin": "null"},
                    {"host": "evil.example"},
                ):
                    path = asked["path"]
                    body = {"json": asked["json"]} if "json" in asked else {}
                    answer = await client.request(route.method, path, headers=header, **body)
                    assert answer.status_code == 403, (route.path, header)
                    assert "access-control-allow-origin" not in answer.headers
            wish = {
                "access-control-request-method": "POST",
                "access-control-request-headers": "authorization,content-type",
            }
            evil = await client.options(
                "/v1/runs", headers={**wish, "origin": "https://evil.example"}
            )
            good = await client.options(
                "/v1/runs", headers={**wish, "origin": "https://good.example"}
            )
            own = await client.get("/v1/agents", headers={"origin": address})
            used = await client.get("/v1/agents", headers={"origin": "https://good.example"})
            lost = await client.get("/v1/threads/x", headers={"origin": "https://good.example"})
    assert (evil.status_code, code_of(evil)) == (403, "foreign_origin")
    assert (good.status_code, good.headers["access-control-allow-origin"]) == (
        204,
        "https://good.example",
    )
    assert good.headers["access-control-allow-headers"] == "authorization,content-type"
    assert "POST" in good.headers["access-control-allow-methods"]
    assert (own.status_code, "access-control-allow-origin" in own.headers) == (200, False)
    assert used.headers["access-control-allow-origin"] == "https://good.example"
    assert (used.headers["vary"], used.headers["x-content-type-options"]) == ("Origin", "nosniff")
    assert (lost.status_code, "access-control-allow-origin" in lost.headers) == (404, True)


async def test_every_origin_is_allowed_only_with_keys(tmp_path: Path) -> None:
    async with Runtime([talker()]) as runtime:
        with pytest.raises(ConfigError, match="only if it has keys"):
            app(runtime, cors_origins=["*"])
        with pytest.raises(ConfigError, match="either keys or auth"):
            app(runtime, keys=tmp_path / "keys.toml", auth=Named())
        with pytest.raises(ConfigError, match="awaken keys add"):
            app(runtime, keys=tmp_path / "keys.toml")


# -- bodies -------------------------------------------------------------------------------------


async def test_bodies_beyond_the_limits_are_refused_without_reading_on(desk: Desk) -> None:
    """06/SV-29: limit + 1, chunked without a length, nested 100,000 deep."""
    sent = 0

    async def endless(part: bytes) -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(10_000):  # 640 MiB, if the server read it
            sent += len(part)
            yield part

    path = "/v1/threads/t/runs"
    limit = 2 * 1024 * 1024
    named = await desk.ask("page", "POST", path, content=b" " * (limit + 1))
    assert (named.status_code, code_of(named)) == (413, "body_too_large")
    assert named.headers["connection"] == "close"
    for part, status in ((b" " * 65_536, 413), (b"[" * 65_536, 400)):
        sent = 0
        status_line = await _raw(desk, path, endless(part))
        assert f" {status} ".encode() in status_line
        assert sent < 32 * limit
    fits = await desk.ask("page", "POST", path, content=b'{"messages":["Hi"],"agent_id":"talker"}')
    assert fits.status_code == 202


async def _raw(desk: Desk, path: str, parts: AsyncIterator[bytes]) -> bytes:
    """Send a chunked body until the server answers; the first line of the answer."""
    host, port = desk.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\ntransfer-encoding: chunked\r\n"
        f"authorization: Bearer {desk.keys['page']}\r\n\r\n"
    )
    writer.write(head.encode())
    answer = asyncio.ensure_future(reader.readline())
    try:
        async for part in parts:
            if answer.done():
                break
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
    except ConnectionError:
        pass
    line = await answer
    writer.close()
    return line


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "bad_body"),
        (b"{", "bad_body"),
        (b"\xff\xfe", "bad_body"),
        (b'{"messages":["\xff"]}', "bad_body"),
        (b'{"messages":["\\ud800"]}', "bad_body"),
        (b'{"messages":["Hi"],"colour":"red"}', "bad_body"),
        (b'{"messages":[{"content":"Hi","colour":"red"}]}', "bad_body"),
        (b'{"messages":[{"content":[{"type":"text","text":"Hi","x":1}]}]}', "bad_body"),
        (b'{"messages":[]}', "bad_body"),
        (b'{"messages":["Hi"],"not_before":"2026-01-01T00:00:00"}', "bad_body"),
        (b'{"messages":["Hi"],"budget":{"tokens":-1}}', "bad_body"),
        (b'{"messages":["Hi"],"overrides":{"temperature":-1}}', "bad_body"),
        (b'{"messages":["Hi"],"labels":{"a=b":"c"}}', "bad_body"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested_too_deeply"),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused(desk: Desk, body: bytes, code: str) -> None:
    answer = await desk.ask("page", "POST", "/v1/threads/t/runs", content=body)
    assert (answer.status_code, code_of(answer)) == (400, code), answer.text
    assert (await desk.runtime.list_threads()).items == ()


async def test_brackets_in_texts_are_not_counted(desk: Desk) -> None:
    text = '[{"\\' * 100
    given = {"agent_id": "talker", "messages": [text]}
    answer = await desk.ask("page", "POST", "/v1/threads/t/runs?wait=30", json=given)
    assert answer.status_code == 200
    assert (await desk.runtime.messages("acme/t"))[0].text() == text


@pytest.mark.parametrize("id", ["a~b", "x" * 201, "a%20b", "%C3%BC"])
async def test_an_id_that_no_thread_may_have_is_refused(desk: Desk, id: str) -> None:
    made = await desk.ask("page", "POST", f"/v1/threads/{id}/runs", json=SAID)
    assert (made.status_code, code_of(made)) == (400, "invalid_id")
    found = await desk.ask("page", "GET", f"/v1/threads/{id}")
    assert found.status_code == 404


async def test_a_path_or_method_that_is_not_there_is_refused(desk: Desk) -> None:
    lost = await desk.ask("page", "GET", "/v1/nothing")
    slash = await desk.ask("page", "GET", "/v1/threads/")
    wrong = await desk.ask("page", "PUT", "/v1/threads")
    head = await desk.ask("page", "HEAD", "/v1/threads")
    query = await desk.ask("page", "GET", "/v1/threads?colour=red")
    null = await desk.ask("page", "GET", "/v1/threads?since=null")
    twice = await desk.ask("page", "GET", "/v1/threads?limit=1&limit=2")
    huge = await desk.ask("page", "GET", f"/v1/threads/t/events?after={'9' * 40}")
    assert (lost.status_code, slash.status_code) == (404, 404)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")
    assert (head.status_code, head.content) == (200, b"")
    assert (query.status_code, code_of(query)) == (400, "bad_query")
    assert {answer.status_code for answer in (null, twice, huge)} == {400}


async def test_an_unknown_agent_is_refused_and_nothing_is_stored(desk: Desk) -> None:
    answer = await desk.ask("page", "POST", "/v1/runs", json={**SAID, "agent_id": "ghost"})
    assert (answer.status_code, code_of(answer)) == (404, "agent_not_found")
    assert "talker" not in answer.text
    assert (await desk.runtime.list_threads()).items == ()


# -- limits -------------------------------------------------------------------------------------


async def test_too_many_requests_are_refused_for_a_while(tmp_path: Path) -> None:
    limits = Limits(rate=0.001, burst=2, streams=0, open_runs=0)
    async with open_desk(tmp_path, limits=limits) as desk:
        statuses = [(await desk.ask("page", "GET", "/v1/agents")).status_code for _ in range(3)]
        refused = desk.answers[-1]
        assert statuses == [200, 200, 429]
        assert int(refused.headers["retry-after"]) > 1
        stream = await desk.ask("viewer", "GET", "/v1/tickets/events")
        run = await desk.ask("developer", "POST", "/v1/runs", json=SAID)
    assert (stream.status_code, code_of(stream)) == (429, "too_many_streams")
    assert (run.status_code, code_of(run)) == (429, "too_many_runs")


async def test_too_many_connections_are_refused(tmp_path: Path) -> None:
    async with open_desk(tmp_path, limits=Limits(connections=0)) as desk:
        answer = await desk.ask("page", "GET", "/v1/agents")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


# -- keys and tokens ----------------------------------------------------------------------------


async def test_a_key_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        file = tmp_path / "keys.toml"
        text = file.read_text()
        file.write_text("not a key file")
        kept = await desk.ask("page", "GET", "/v1/agents")
        file.write_text(text.replace('name = "page"', 'name = "pager"'))
        await desk.ask("page", "POST", "/v1/threads", json={"id": "t"})
        thread = (await desk.ask("viewer", "GET", "/v1/threads/t")).json()
        file.write_text("")
        gone = await desk.ask("page", "GET", "/v1/agents")
    assert (kept.status_code, gone.status_code) == (200, 401)
    assert thread["created_by"] == "pager"


async def test_a_stream_token_is_good_for_its_thread_alone(desk: Desk) -> None:
    for name in ("t", "u"):
        await desk.ask("page", "POST", f"/v1/threads/{name}/runs?wait=30", json=SAID)
    given = {"thread_id": "t", "ttl": 60}
    made = await desk.ask("page", "POST", "/v1/tokens", json=given)
    assert made.status_code == 201
    token = made.json()["token"]
    desk.keys["browser"] = token
    submitted = await desk.ask("browser", "POST", "/v1/threads/t/runs?wait=30", json=SAID)
    other = await desk.ask("browser", "GET", "/v1/threads/u")
    elsewhere = await desk.ask("browser", "POST", "/v1/threads/new/runs", json=SAID)
    listed = await desk.ask("browser", "GET", "/v1/threads")
    assert submitted.status_code == 200
    assert (other.status_code, elsewhere.status_code, listed.status_code) == (404, 404, 403)
    path = f"/v1/runs/{submitted.json()['run_id']}/events?token={token}"
    followed = await desk.ask(None, "GET", path, headers=STREAM)
    paged = await desk.ask(None, "GET", path)
    assert (followed.status_code, paged.status_code) == (200, 401)
    desk.keys["browser"] = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
    assert (await desk.ask("browser", "GET", "/v1/threads/t")).status_code == 401
    too_much = {**given, "roles": ["decide"]}
    refused = await desk.ask("page", "POST", "/v1/tokens", json=too_much)
    foreign = await desk.ask("stranger", "POST", "/v1/tokens", json={"thread_id": "t"})
    long = await desk.ask("page", "POST", "/v1/tokens", json={**given, "ttl": 601})
    assert (refused.status_code, foreign.status_code, long.status_code) == (403, 201, 400)


def test_a_token_expires() -> None:
    clock = FakeClock()
    tokens = Tokens(lambda: "secret", clock)
    token, _ = tokens.make(Principal(id="ann"), "t", 60, NO_TERMS)
    assert Tokens(lambda: "secret", clock).read(token).thread == "t"
    for other in (Tokens(lambda: "other", clock), Tokens(clock=clock)):
        with pytest.raises(Refused, match="not known"):
            other.read(token)
    clock.advance(60)
    with pytest.raises(Refused, match="expired"):
        tokens.read(token)
