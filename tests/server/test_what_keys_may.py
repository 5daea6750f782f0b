"""What keys, tokens and their clients may see and do, and what they may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from edge_kit import Desk, code_of, open_desk, payer, talker, write_keys

from awaken import Agent
from awaken.server.keys import add_key
from awaken.testing import ScriptedModel

pytestmark = pytest.mark.anyio

SAID = {"agent_id": "talker", "messages": ["Hi"]}


def billing() -> Agent:
    return Agent("billing", model=ScriptedModel(["The card number is 4242."] * 99))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """The two tenants, with an agent `billing`; the key `support` is narrowed to the talker."""
    file = tmp_path / "keys.toml"
    keys = write_keys(file)
    keys["support"] = add_key(
        file, name="support", scope="acme", roles=("invoke", "read"), agents=("talker",)
    )
    keys["reader"] = add_key(file, name="reader", scope="acme", roles=("invoke", "read"))
    agents = (talker(), payer(), billing())
    async with open_desk(tmp_path, agents=agents, keys=keys) as desk:
        yield desk


async def run_in(desk: Desk, thread: str, agent: str = "billing", **more: Any) -> dict[str, Any]:
    asked = {"agent_id": agent, "messages": ["card?"], **more}
    answer = await desk.ask("developer", "POST", f"/v1/threads/{thread}/runs?wait=30", json=asked)
    assert answer.status_code == 200, answer.text
    ran: dict[str, Any] = answer.json()
    return ran


# -- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("maker", ["page", "support"])
async def test_a_token_does_not_show_a_thread_that_others_begin_later(
    desk: Desk, maker: str
) -> None:
    made = await desk.ask(maker, "POST", "/v1/tokens", json={"thread_id": "soon"})
    assert made.status_code == 201
    desk.keys["browser"] = made.json()["token"]
    await run_in(desk, "soon")
    for who in (maker, "browser"):
        for method, path, body in (
            ("GET", "/v1/threads/soon", None),
            ("GET", "/v1/threads/soon/messages", None),
            ("POST", "/v1/threads/soon/runs", SAID),
        ):
            refused = await desk.ask(who, method, path, json=body)
            assert refused.status_code == 404, (who, path)


async def test_a_token_begins_its_thread_and_reads_it_afterwards(desk: Desk) -> None:
    made = await desk.ask("page", "POST", "/v1/tokens", json={"thread_id": "mine"})
    desk.keys["browser"] = made.json()["token"]
    begun = await desk.ask("browser", "POST", "/v1/threads/mine/runs?wait=30", json=SAID)
    read = await desk.ask("browser", "GET", "/v1/threads/mine/messages")
    assert (begun.status_code, read.status_code) == (200, 200)


async def test_a_token_shows_a_thread_that_its_maker_saw(desk: Desk) -> None:
    await run_in(desk, "theirs")
    asked = {"thread_id": "theirs", "roles": ["invoke"]}
    made = await desk.ask("reader", "POST", "/v1/tokens", json=asked)
    desk.keys["browser"] = made.json()["token"]
    assert (await desk.ask("browser", "GET", "/v1/threads/theirs/messages")).status_code == 200


async def test_a_token_loses_what_its_key_loses(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    made = await desk.ask("reader", "POST", "/v1/tokens", json={"thread_id": "t"})
    desk.keys["browser"] = made.json()["token"]
    begun = await desk.ask("browser", "POST", "/v1/threads/t/runs?wait=30", json=SAID)
    text = file.read_text()
    head, own, rest = text.partition('name = "reader"')
    file.write_text(head + own + rest.replace('["invoke","read"]', '["read"]'))
    refused = await desk.ask("browser", "POST", "/v1/threads/t/runs", json=SAID)
    read = await desk.ask("browser", "GET", "/v1/threads/t")
    assert (begun.status_code, refused.status_code, read.status_code) == (200, 403, 200)
    file.write_text(head + own + rest + 'agents = ["billing"]\n')
    narrowed = await desk.ask("browser", "POST", "/v1/threads/t/runs", json=SAID)
    assert (narrowed.status_code, code_of(narrowed)) == (404, "not_found")
    file.write_text(head + own + rest.replace('"acme"', '"moved"'))
    moved = await desk.ask("browser", "GET", "/v1/threads/t")
    assert moved.status_code == 401


# -- narrowed keys --------------------------------------------------------------------------------


async def test_a_copy_is_seen_by_those_who_see_the_original(desk: Desk) -> None:
    await run_in(desk, "bill")
    await run_in(desk, "talk", "talker")
    for origin in ("bill", "talk"):
        for new, old in ((f"{origin}-2", origin), (f"{origin}-3", f"{origin}-2")):
            forked = await desk.ask(
                "developer", "POST", f"/v1/threads/{old}/fork", json={"id": new}
            )
            assert forked.status_code == 201
    seen = {
        name: (await desk.ask("support", "GET", f"/v1/threads/{name}/messages")).status_code
        for name in ("bill", "bill-2", "bill-3", "talk", "talk-2", "talk-3")
    }
    assert seen == {
        **dict.fromkeys(("bill", "bill-2", "bill-3"), 404),
        **dict.fromkeys(("talk", "talk-2", "talk-3"), 200),
    }
    listed = (await desk.ask("support", "GET", "/v1/threads")).json()["items"]
    assert {thread["id"] for thread in listed} == {"talk", "talk-2", "talk-3"}


async def test_a_copy_whose_original_is_deleted_is_not_seen(desk: Desk) -> None:
    await run_in(desk, "bill")
    await desk.ask("developer", "POST", "/v1/threads/bill/fork", json={"id": "copy"})
    await desk.ask("boss", "DELETE", "/v1/threads/bill")
    assert (await desk.ask("support", "GET", "/v1/threads/copy")).status_code == 404
    await desk.ask("developer", "POST", "/v1/threads/copy/fork", json={"id": "bill"})
    assert (await desk.ask("support", "GET", "/v1/threads/copy")).status_code == 404
    await desk.ask("developer", "POST", "/v1/threads", json={"id": "empty"})
    assert (await desk.ask("support", "GET", "/v1/threads/empty")).status_code == 200
