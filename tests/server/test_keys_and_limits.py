"""Keys, stream tokens, and how much a client may ask at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from edge_kit import Desk, code_of, open_desk

from awaken.core.budget import Budget
from awaken.core.identity import Principal
from awaken.events import Stopped
from awaken.server.auth import TokenClaims, Tokens
from awaken.server.errors import HttpRefusal
from awaken.server.limits import Limits, limit_budget
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio

SAID = {"agent_id": "talker", "messages": ["Hi"]}
STREAM = {"accept": "text/event-stream"}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as opened:
        yield opened


async def test_too_many_requests_are_refused_for_a_while(tmp_path: Path) -> None:
    limits = Limits(rate=0.001, burst=2, streams=0, open_runs=0)
    async with open_desk(tmp_path, limits=limits) as desk:
        for _ in range(3):  # a probe with a key takes nothing from the key
            assert (await desk.ask("page", "GET", "/health/ready")).status_code == 200
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


async def test_a_key_has_its_own_rate_and_budget(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        file = tmp_path / "keys.toml"
        own = 'name = "page"\nrate = 0.001\nburst = 2\nbudget = { steps = 1 }'
        file.write_text(file.read_text().replace('name = "page"', own))
        asked = {"agent_id": "payer", "messages": ["Pay"], "budget": {"steps": 9}}
        waiting = await desk.ask("page", "POST", "/v1/threads/t/runs?wait=30", json=asked)
        (ticket,) = waiting.json()["tickets"]
        run_id = waiting.json()["run_id"]
        yes = [{"ticket": ticket["key"], "action": "approve", "digest": ticket["digest"]}]
        await desk.ask("approver", "POST", f"/v1/runs/{run_id}/decisions", json=yes)
        ended = await desk.runtime.wait(run_id, timeout=550)
        statuses = [(await desk.ask("page", "GET", "/v1/agents")).status_code for _ in range(2)]
    assert isinstance(ended.termination, Stopped)
    assert ended.termination.value.code == "budget"
    assert statuses == [200, 429]
    most = Budget(tokens=3, steps=2)
    assert limit_budget(Budget(tokens=5, money=1), most) == Budget(tokens=3, money=1, steps=2)
    assert (limit_budget(None, most), limit_budget(most, None), limit_budget(None, None)) == (
        most,
        most,
        None,
    )


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


async def test_a_stream_token_may_be_good_for_one_path_alone(desk: Desk) -> None:
    run = (await desk.ask("page", "POST", "/v1/threads/t/runs?wait=30", json=SAID)).json()
    events = f"/v1/runs/{run['run_id']}/events"
    made = await desk.ask("page", "POST", "/v1/tokens", json={"path": f"{events}?after=0"})
    assert made.status_code == 201, made.text
    desk.keys["browser"] = made.json()["token"]
    for path, status in ((events, 200), (events + "?after=1", 200), (f"{events}/", 403)):
        assert (await desk.ask("browser", "GET", path)).status_code == status, path
    for path in ("/v1/threads/t", "/v1/threads/t/events", "/v1/me"):
        refused = await desk.ask("browser", "GET", path)
        assert (refused.status_code, code_of(refused)) == (403, "not_with_a_token"), path
    ticket = await desk.ticket("u")
    for path in (f"/v1/tickets/{ticket['key']}", "/v1/ai-sdk/chat/u/stream", "/v1/threads/u"):
        good = await desk.ask("developer", "POST", "/v1/tokens", json={"path": path})
        assert good.status_code == 201, path
        foreign = await desk.ask("stranger", "POST", "/v1/tokens", json={"path": path})
        assert (foreign.status_code, code_of(foreign)) == (404, "not_found"), path
    for path in ("/v1/threads", "/v1/ai-sdk/chat", "/health", "/v1/threads/none", "//x", "/v1/me"):
        none = await desk.ask("developer", "POST", "/v1/tokens", json={"path": path})
        assert none.status_code == 404, path
    for asked in ({}, {"path": events, "thread_id": "t"}, {"path": None}, {"path": "v1"}):
        bad = await desk.ask("developer", "POST", "/v1/tokens", json=asked)
        assert (bad.status_code, code_of(bad)) == (400, "bad_body"), asked


async def test_a_token_is_signed_and_expires() -> None:
    clock = FakeClock()

    def signing(secret: str) -> Tokens:
        async def given() -> str:
            return secret

        return Tokens(given, clock)

    tokens = signing("secret")
    claims = TokenClaims(principal=Principal(id="ann"), thread="t", expires_at_ms=tokens.expiry(60))
    token = await tokens.make(claims)
    assert (await signing("secret").read(token)).thread == "t"
    for wrong in (token[:-2], token + "A", "awt_", "awt_.", "awt_x.y"):
        with pytest.raises(HttpRefusal):
            await tokens.read(wrong)
    with pytest.raises(HttpRefusal):
        await signing("other").read(token)
    clock.advance(61)
    with pytest.raises(HttpRefusal):
        await tokens.read(token)
