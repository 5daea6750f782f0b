"""The edge: keys, roles, scopes, hosts, origins and limits, on every route of the table."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from edge_kit import Desk, code_of, open_desk, talker
from server_kit import served
from starlette.applications import Starlette
from starlette.routing import Mount

from awaken import Runtime
from awaken.core.identity import Principal
from awaken.errors import ConfigError
from awaken.server import app
from awaken.server.route import KeyRole, Route
from awaken.server.routes import ROUTES

pytestmark = pytest.mark.anyio

SAID = {"agent_id": "talker", "messages": ["Hi"]}
WITH_KEY = [route for route in ROUTES if route.needs]
BODIES: dict[str, Any] = {
    "ArgumentsGiven": {"arguments": {}},
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
    without_role = {
        KeyRole.INVOKE: "approver",
        KeyRole.READ: "approver",
        KeyRole.ADMIN: "developer",
    }
    for route in WITH_KEY:
        asked = request_to(route, ids)
        missing = await desk.ask(None, **asked)
        wrong = await desk.ask("nobody", **asked)
        assert (missing.status_code, wrong.status_code) == (401, 401), route.path
        assert missing.headers["www-authenticate"] == "Bearer"
        if "{thread}" in route.path or "{run}" in route.path or "{ticket}" in route.path:
            begins = ("{thread}/runs", "{thread}/connect")
            if route.path.endswith(begins) and route.name != "list_thread_runs":
                continue  # each tenant has a thread of this name, if it wants
            foreign = await desk.ask("stranger", **asked)
            assert (foreign.status_code, code_of(foreign)) == (404, "not_found"), route.path
        lacking = next((who for role, who in without_role.items() if route.needs == (role,)), None)
        if route.needs == (KeyRole.INVOKE, KeyRole.READ):
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


async def test_a_principal_whose_id_is_a_number_is_refused_and_the_owner_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its id would be stored with every run, and no list of the scope could be read any more."""
    number: Any = 7

    class Login:
        def authenticate(self, head: Any) -> Principal | None:
            id = number if head.get("authorization") == "Bearer number" else "bob"
            return Principal(id=id, scope="acme", roles=("admin",))

    async with (
        Runtime([talker()], store="sqlite:///:memory:") as runtime,
        served(app(runtime, auth=Login())) as address,
        client_of(address) as client,
    ):
        numbered, named = ({"authorization": f"Bearer {one}"} for one in ("number", "name"))
        refused = await client.post("/v1/threads/t/runs", json=SAID, headers=numbered)
        taken = await client.post("/v1/threads/u/runs?wait=30", json=SAID, headers=named)
        lists = [
            await client.get(f"/v1/{of}", headers=named) for of in ("runs", "threads", "tickets")
        ]
    assert (refused.status_code, code_of(refused)) == (500, "internal")
    assert "what authenticate returned cannot be used: principal.id is a text, not 7" in caplog.text
    assert [answer.status_code for answer in (taken, *lists)] == [200] * 4


def talker_named(name: str) -> Any:
    agent = talker()
    return type(agent)(name, model=agent.model)


def client_of(address: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=address, timeout=550)


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


async def test_an_application_is_mounted_in_another_one(tmp_path: Path) -> None:
    async with Runtime([talker()]) as runtime:
        outer = Starlette(routes=[Mount("/agents", app(runtime))])
        async with served(outer) as address, client_of(address) as client:
            taken = await client.post("/agents/v1/threads/t/runs", json=SAID)
            events = await client.get(taken.json()["events"])
            described = await client.get("/agents/v1/openapi.json")
            lost = await client.get("/agents/v1/nothing")
    assert (taken.status_code, events.status_code) == (202, 200)
    assert described.json()["servers"] == [{"url": "/agents"}]
    assert (lost.status_code, code_of(lost)) == (404, "not_found")
