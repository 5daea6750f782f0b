"""Threads that are deleted and begun again under the same id, and what tokens and copies of the
earlier ones show of them; and that a token may do no more than its maker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from edge_kit import Desk, code_of, open_desk, pay, talker, write_keys
from server_kit import served

from awaken import Agent, Runtime
from awaken.runtime import Principal
from awaken.server import app
from awaken.server.keys import add_key
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio

SAID = {"agent_id": "talker", "messages": ["Hi"]}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    """`support` is a key narrowed to the talker, `reader` may invoke and read."""
    kinds = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/s.db"}
    if request.param == "postgres":
        kinds["postgres"] = request.getfixturevalue("postgres").address()
    file = tmp_path / "keys.toml"
    keys = write_keys(file)
    roles = ("invoke", "read")
    keys["support"] = add_key(file, name="support", scope="acme", roles=roles, agents=("talker",))
    keys["reader"] = add_key(file, name="reader", scope="acme", roles=roles)
    billing = Agent("billing", model=ScriptedModel(["The card number is 4242."] * 99))
    call = tool_call_response("", "pay", "c1", {"euros": 5})
    payer = Agent("payer", model=ScriptedModel([call] * 9), tools=[pay])
    agents, store = (talker(), payer, billing), kinds[request.param]
    async with open_desk(tmp_path, agents=agents, keys=keys, store=store) as desk:
        yield desk


async def run_in(desk: Desk, who: str, thread: str, agent: str = "talker") -> None:
    asked = {"agent_id": agent, "messages": ["card?"]}
    answer = await desk.ask(who, "POST", f"/v1/threads/{thread}/runs?wait=30", json=asked)
    assert answer.status_code == 200, answer.text


async def delete(desk: Desk, thread: str) -> None:
    assert (await desk.ask("boss", "DELETE", f"/v1/threads/{thread}")).status_code == 204


async def give_token(desk: Desk, maker: str, **asked: Any) -> None:
    made = await desk.ask(maker, "POST", "/v1/tokens", json=asked)
    assert made.status_code == 201, made.text
    desk.keys["browser"] = made.json()["token"]


async def status_of(desk: Desk, who: str, path: str) -> int:
    return (await desk.ask(who, "GET", f"/v1/threads/{path}")).status_code


# -- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("roles", [None, ["invoke"]])
async def test_a_token_ends_no_run_that_its_maker_may_not_end(
    desk: Desk, roles: list[str] | None
) -> None:
    ticket = await desk.ticket("theirs")
    await give_token(desk, "reader", thread_id="theirs", roles=roles)
    chat = {"id": "theirs", "messages": [{"id": "m", "role": "user", "parts": []}]}
    for who in ("reader", "browser"):
        runs = await desk.ask(
            who, "POST", "/v1/threads/theirs/runs", json={**SAID, "mode": "interrupt"}
        )
        cancelled = await desk.ask(who, "POST", f"/v1/runs/{ticket['run_id']}/cancel")
        stopped = await desk.ask(who, "POST", "/v1/ai-sdk/chat/theirs/cancel", json=chat)
        assert (runs.status_code, code_of(runs)) == (403, "missing_role"), who
        assert (cancelled.status_code, stopped.status_code) == (404, 404), who
    run = await desk.ask("developer", "GET", f"/v1/runs/{ticket['run_id']}")
    assert run.json()["status"] == "waiting"


async def test_a_token_ends_the_runs_that_its_maker_and_its_own_roles_may_end(desk: Desk) -> None:
    for thread, who, roles, status in (
        ("mine", "page", None, 200),
        ("theirs", "developer", None, 200),
        ("others", "developer", ["invoke"], 404),
    ):
        ticket = await desk.ticket(thread, who="page")
        await give_token(desk, who, thread_id=thread, roles=roles)
        cancelled = await desk.ask("browser", "POST", f"/v1/runs/{ticket['run_id']}/cancel")
        assert cancelled.status_code == status, thread


@pytest.mark.parametrize("by", ["thread", "path"])
async def test_a_token_does_not_show_what_others_begin_under_the_id_of_a_deleted_thread(
    desk: Desk, by: str
) -> None:
    await run_in(desk, "page", "t")
    path = "/v1/threads/t/messages"
    await give_token(desk, "page", **({"thread_id": "t"} if by == "thread" else {"path": path}))
    assert await status_of(desk, "browser", "t/messages") == 200
    await delete(desk, "t")
    assert (await desk.ask("developer", "POST", "/v1/threads", json={"id": "t"})).is_success
    await run_in(desk, "developer", "t", "billing")
    assert await status_of(desk, "page", "t/messages") == 404
    assert await status_of(desk, "browser", "t/messages") == 404


async def test_a_token_without_read_shows_the_thread_that_was_seen_and_no_later_one(
    desk: Desk,
) -> None:
    """Its maker may read both: it has said that the token may not read."""
    await run_in(desk, "developer", "t")
    await give_token(desk, "reader", thread_id="t", roles=["invoke"])
    assert await status_of(desk, "browser", "t") == 200
    await delete(desk, "t")
    await desk.ask("developer", "POST", "/v1/threads", json={"id": "t"})
    await run_in(desk, "developer", "t")
    assert await status_of(desk, "reader", "t") == 200
    assert await status_of(desk, "browser", "t") == 404


async def test_a_token_of_a_narrowed_key_does_not_follow_its_thread_to_another_agent(
    desk: Desk,
) -> None:
    await run_in(desk, "developer", "t", "talker")
    await give_token(desk, "support", thread_id="t")
    assert await status_of(desk, "browser", "t") == 200
    await run_in(desk, "developer", "t", "billing")
    assert await status_of(desk, "support", "t/messages") == 404
    assert await status_of(desk, "browser", "t/messages") == 404


async def test_a_token_of_an_own_authenticator_may_what_its_maker_might(tmp_path: Path) -> None:
    """No key can be asked for the maker's roles: the token has them."""
    people = {
        "reader": Principal(id="ann", scope="acme", roles=("invoke", "read")),
        "page": Principal(id="bob", scope="acme", roles=("invoke",)),
    }

    class Login:
        def authenticate(self, head: Mapping[str, str]) -> Principal | None:
            return people.get(head.get("authorization", "").removeprefix("Bearer "))

    async with (
        Runtime([talker()]) as runtime,
        served(app(runtime, auth=Login())) as address,
        httpx2.AsyncClient(base_url=address) as client,
    ):
        desk = Desk(client, address, runtime, {name: name for name in people})
        for thread, maker, roles, status in (
            ("mine", "page", None, 200),
            ("theirs", "reader", None, 200),
            ("others", "reader", ["invoke"], 200),
            ("later", "reader", ["invoke"], 404),
        ):
            if thread == "later":
                await give_token(desk, maker, thread_id=thread, roles=roles)
            await run_in(desk, "page", thread)
            if thread != "later":
                await give_token(desk, maker, thread_id=thread, roles=roles)
            assert await status_of(desk, "browser", thread) == status, thread


# -- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", ["an empty thread", "a thread of the talker", "a copy"])
async def test_a_copy_does_not_become_readable_when_the_id_of_its_original_is_used_again(
    desk: Desk, again: str
) -> None:
    await run_in(desk, "developer", "bill", "billing")
    copied = await desk.ask("developer", "POST", "/v1/threads/bill/fork", json={"id": "copy"})
    assert copied.status_code == 201
    await delete(desk, "bill")
    match again:
        case "an empty thread":
            begun = await desk.ask("support", "POST", "/v1/threads", json={"id": "bill"})
            assert begun.status_code == 201
        case "a thread of the talker":
            await desk.ask("support", "POST", "/v1/threads", json={"id": "bill"})
            for _ in range(2):
                await run_in(desk, "support", "bill")
        case _:
            await run_in(desk, "support", "talk")
            await desk.ask("support", "POST", "/v1/threads/talk/fork", json={"id": "bill"})
    assert await status_of(desk, "support", "bill") == 200
    assert await status_of(desk, "support", "copy/messages") == 404
    listed = (await desk.ask("support", "GET", "/v1/threads")).json()["items"]
    assert "copy" not in {thread["id"] for thread in listed}


async def test_a_copy_of_a_part_that_takes_the_place_of_the_original_shows_no_more(
    desk: Desk,
) -> None:
    """A copy of the beginning goes on with the talker under the id of the original."""
    await run_in(desk, "developer", "bill", "billing")
    first = (await desk.ask("developer", "GET", "/v1/threads/bill")).json()["event_count"]
    await desk.ask("developer", "POST", "/v1/threads/bill/fork", json={"id": "part"})
    await run_in(desk, "developer", "bill", "billing")
    await desk.ask("developer", "POST", "/v1/threads/bill/fork", json={"id": "copy"})
    await delete(desk, "bill")
    again = {"id": "bill", "at": first}
    assert (await desk.ask("developer", "POST", "/v1/threads/part/fork", json=again)).is_success
    for _ in range(2):
        await run_in(desk, "developer", "bill")
    assert await status_of(desk, "support", "bill") == 200
    assert await status_of(desk, "support", "copy/messages") == 404


async def test_a_copy_of_an_original_that_goes_on_is_seen_as_it_is(desk: Desk) -> None:
    await run_in(desk, "developer", "talk")
    first = (await desk.ask("developer", "GET", "/v1/threads/talk")).json()["event_count"]
    await run_in(desk, "developer", "talk")
    for id, at in (("whole", None), ("part", first)):
        forked = await desk.ask(
            "developer", "POST", "/v1/threads/talk/fork", json={"id": id, "at": at}
        )
        assert forked.status_code == 201
    assert await status_of(desk, "support", "whole") == await status_of(desk, "support", "part")
    assert await status_of(desk, "support", "part") == 200
    await run_in(desk, "developer", "talk", "billing")
    assert await status_of(desk, "support", "whole") == await status_of(desk, "support", "part")
    assert await status_of(desk, "support", "part") == 404


async def test_a_copy_of_an_empty_thread_is_free(desk: Desk) -> None:
    await desk.ask("developer", "POST", "/v1/threads", json={"id": "empty"})
    forked = await desk.ask("developer", "POST", "/v1/threads/empty/fork", json={"id": "copy"})
    assert forked.status_code == 201
    assert await status_of(desk, "support", "copy") == 200
