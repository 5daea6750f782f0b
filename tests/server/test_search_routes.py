"""`/v1/search` and `/v1/usage`, and who may see what (07 §6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from edge_kit import Desk, code_of, open_desk, talker, write_keys

from awaken import Agent
from awaken.server.keys import add_key
from awaken.testing import FunctionModel, ScriptedModel, text_response

pytestmark = pytest.mark.anyio


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    file = tmp_path / "keys.toml"
    keys = write_keys(file)
    keys["narrow"] = add_key(
        file, name="narrow", scope="acme", roles=("invoke", "read"), agents=("talker",)
    )
    secret = Agent("secret", model=ScriptedModel(["The mug is in the safe."] * 9))
    store = f"sqlite:///{tmp_path}/a.db"
    async with open_desk(tmp_path, store=store, agents=(talker(), secret), keys=keys) as desk:
        yield desk


async def say(desk: Desk, who: str, thread: str, text: str, agent: str = "talker") -> None:
    asked = {"agent_id": agent, "messages": [text], "user": "ann", "labels": {"team": "x"}}
    answer = await desk.ask(who, "POST", f"/v1/threads/{thread}/runs?wait=30", json=asked)
    assert answer.status_code == 200, answer.text


async def search(desk: Desk, who: str, **query: Any) -> dict[str, Any]:
    answer = await desk.ask(who, "GET", "/v1/search", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def threads(desk: Desk, who: str, q: str, **query: Any) -> list[str]:
    return [item["thread_id"] for item in (await search(desk, who, q=q, **query))["items"]]


async def test_a_key_finds_what_it_may_see(desk: Desk) -> None:
    await say(desk, "page", "mine", "my mug")
    await say(desk, "developer", "theirs", "their mug")
    await say(desk, "developer", "safe", "the mug", agent="secret")
    await say(desk, "stranger", "far", "another mug")
    assert await threads(desk, "viewer", "mug") == ["safe", "theirs", "mine"]
    assert await threads(desk, "page", "mug") == ["mine"]
    assert await threads(desk, "narrow", "mug") == ["theirs", "mine"]
    assert await threads(desk, "stranger", "mug") == ["far"]
    assert await threads(desk, "viewer", "agent:secret") == ["safe"]
    assert await threads(desk, "viewer", "user:ann label:team=x their") == ["theirs"]
    hit = (await search(desk, "viewer", q="safe mug", kind="runs"))["items"][0]
    assert (hit["thread_id"], hit["agent_id"], hit["status"]) == ("safe", "secret", "finished")
    assert hit["snippet"] == "the mug The mug is in the safe."
    assert "acme" not in str(await search(desk, "viewer", q=""))


async def test_pages_go_on_behind_their_cursor(desk: Desk) -> None:
    for n in range(5):
        await say(desk, "developer" if n % 2 else "page", f"t{n}", "mug")
    for who, count in (("viewer", 5), ("page", 3)):
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await search(desk, who, q="mug", limit=2, **cursor)
            seen += [item["thread_id"] for item in page["items"]]
            if page["cursor"] is None:
                break
            cursor = {"cursor": page["cursor"]}
        assert len(seen) == len(set(seen)) == count
    answer = await desk.ask("viewer", "GET", "/v1/search?q=cup&cursor=x")
    assert (answer.status_code, code_of(answer)) == (410, "cursor_gone")


async def test_a_wrong_part_is_named(desk: Desk) -> None:
    answer = await desk.ask("viewer", "GET", "/v1/search?q=mug+status:broken")
    assert (answer.status_code, code_of(answer)) == (400, "bad_request")
    assert answer.json()["error"]["message"].startswith("status:broken: ")
    answer = await desk.ask("viewer", "GET", "/v1/search", params={"zone": "Mars/Base"})
    assert answer.status_code == 400
    answer = await desk.ask("approver", "GET", "/v1/search?q=mug")
    assert answer.status_code == 403


async def test_an_index_that_cannot_be_used_costs_searches_alone(
    desk: Desk, tmp_path: Path
) -> None:
    """07/CO-41: search says that it is not available, and why; everything else works."""
    (tmp_path / "a.db-search").mkdir()
    await say(desk, "developer", "t", "mug")
    answer = await desk.ask("viewer", "GET", "/v1/search?q=mug")
    assert (answer.status_code, code_of(answer)) == (503, "search_unavailable")
    assert "unable to open" in answer.text
    assert str(tmp_path) not in answer.text
    (tmp_path / "a.db-search").rmdir()
    assert await threads(desk, "viewer", "mug") == ["t"]
    (tmp_path / "a.db-search").write_bytes(b"no database" * 1_000)
    assert await threads(desk, "viewer", "mug") == ["t"]


async def test_sums_are_for_those_who_read_the_whole_scope(desk: Desk) -> None:
    await say(desk, "page", "t", "mug")
    await say(desk, "developer", "u", "mug", agent="secret")
    await say(desk, "stranger", "far", "mug")
    answer = await desk.ask("viewer", "GET", "/v1/usage?by=agent,user")
    assert answer.status_code == 200, answer.text
    rows = {(row["agent"], row["user"]): row["runs"] for row in answer.json()["items"]}
    assert rows == {("talker", "ann"): 1, ("secret", "ann"): 1}
    answer = await desk.ask("viewer", "GET", "/v1/usage?agent=secret&zone=Europe/Vienna")
    (row,) = answer.json()["items"]
    assert (row["runs"], row["agent"], len(row["day"])) == (1, None, 10)
    for who in ("page", "narrow"):
        assert (await desk.ask(who, "GET", "/v1/usage")).status_code == 403
    for query in ("by=colour", "after=2026-13-01", "zone=Mars"):
        assert (await desk.ask("viewer", "GET", f"/v1/usage?{query}")).status_code == 400


async def test_errors_are_found_without_the_scope_of_their_ids(tmp_path: Path) -> None:
    def fail(request: object) -> Any:
        raise RuntimeError("thread acme/t has exploded")

    agents = (Agent("bomb", model=FunctionModel(fail)), Agent("a", model=FunctionModel(_say)))
    async with open_desk(tmp_path, agents=agents) as desk:
        asked = {"agent_id": "bomb", "messages": ["mug"]}
        await desk.ask("developer", "POST", "/v1/threads/t/runs?wait=30", json=asked)
        (hit,) = (await search(desk, "viewer", q="exploded status:failed"))["items"]
        assert "has exploded" in hit["snippet"]
        assert "acme/" not in hit["snippet"]


def _say(request: object) -> Any:
    return text_response("hello")
