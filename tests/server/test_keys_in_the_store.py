"""Keys, sessions and the audit in the store: what several nodes make of them, and hostile peers."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from edge_kit import code_of, slow, talker
from server_kit import served
from stream_kit import ask, serving

from awaken import Agent, Runtime, tool
from awaken.cli import main
from awaken.core.access import Deed, KeyEntry, KeyRole
from awaken.core.budget import Budget
from awaken.errors import StoreUnavailable
from awaken.server import app, open_streams
from awaken.server.console import audit
from awaken.server.console.audit import MAX_ANONYMOUS_DEEDS
from awaken.server.keys import add_to_store
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio

SAID = {"agent_id": "talker", "messages": ["Hi"]}
STREAM = {"accept": "text/event-stream"}


def with_key(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@asynccontextmanager
async def node(runtime: Runtime) -> AsyncIterator[httpx2.AsyncClient]:
    """A server of the runtime that asks the store for keys."""
    async with (
        runtime,
        served(app(runtime, keys="store")) as address,
        httpx2.AsyncClient(base_url=address, timeout=550) as client,
    ):
        yield client


@asynccontextmanager
async def nodes(file: Path) -> AsyncIterator[tuple[list[httpx2.AsyncClient], SqliteStore]]:
    """Two servers on one file, and a third handle on it, as `awaken keys` has one."""
    store = SqliteStore(file)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(node(Runtime([talker()], store=f"sqlite:///{file}")))
            for _ in range(2)
        ]
        yield clients, store
        await store.close()


async def test_a_key_in_the_store_is_good_on_every_node_until_it_is_revoked(
    tmp_path: Path,
) -> None:
    """06/SV-26 with keys in the store: made and revoked by another process, at once."""
    async with nodes(tmp_path / "a.db") as (clients, store):
        keys = {
            role: await add_to_store(store.access, name=role, scope="acme", roles=[role])
            for role in (KeyRole.INVOKE, KeyRole.READ)
        }
        other = await add_to_store(store.access, scope="other", roles=["admin"])
        posted = await clients[0].post(
            "/v1/threads/t/runs?wait=30", json=SAID, headers=with_key(keys[KeyRole.INVOKE])
        )
        assert posted.status_code == 200
        id = keys[KeyRole.READ].split("_")[1]
        wrong = ("awk_nobody_" + "x" * 43, f"awk_{id}_" + "x" * 43, keys[KeyRole.READ][:-1])
        for client in clients:
            heads = [with_key(key) for key in (keys[KeyRole.READ], other, *wrong)]
            answers = [await client.get("/v1/threads/t", headers=head) for head in heads]
            answers.append(await client.get("/v1/threads/t"))
            assert [answer.status_code for answer in answers] == [200, 404, *[401] * 4]
            viewer = with_key(keys[KeyRole.READ])
            assert (await client.post("/v1/runs", json=SAID, headers=viewer)).status_code == 403
        assert await store.access.revoke_key(id)
        for client in clients:
            gone = await client.get("/v1/threads/t", headers=with_key(keys[KeyRole.READ]))
            assert (gone.status_code, code_of(gone)) == (401, "unauthorized")


async def test_a_key_has_its_own_rate_and_budget() -> None:
    @tool
    async def add() -> int:
        """Add."""
        return 1

    adder = Agent("adder", model=ScriptedModel([tool_call_response("", "add", "c", {}), "1"]))
    store = MemoryStore()
    async with node(Runtime([adder], store=store, tools=[add])) as client:
        few = await add_to_store(store.access, roles=["invoke"], rate=0.001, burst=1)
        poor = await add_to_store(store.access, roles=["invoke"], budget=Budget(steps=1))
        codes = [(await client.get("/v1/me", headers=with_key(few))).status_code for _ in range(2)]
        assert codes == [200, 429]
        more = {"agent_id": "adder", "messages": ["Hi"], "budget": {"steps": 9}}
        run = await client.post("/v1/runs?wait=30", json=more, headers=with_key(poor))
        assert run.json()["termination"]["type"] == "stopped"


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_sessions_words_and_the_audit_are_those_of_all_nodes(tmp_path: Path) -> None:
    """06 §3.2: begun here, used there, signed out there, over here; and a word begins one."""
    async with nodes(tmp_path / "a.db") as (clients, store):
        here, there = clients
        boss = with_key(await add_to_store(store.access, name="boss", roles=["admin"]))
        made = await here.post("/v1/session", json={}, headers=boss)
        session = with_key(made.json()["token"])
        assert (await there.get("/v1/me", headers=session)).json()["name"] == "boss"
        word = (await here.post("/v1/session/words", headers=session)).json()["word"]
        begun = await asyncio.gather(
            *(client.post("/v1/session", json={"word": word}) for client in clients * 3)
        )
        assert sorted(answer.status_code for answer in begun) == [201, *[401] * 5]
        assert (await there.delete("/v1/session", headers=session)).status_code == 204
        for client in clients:
            assert (await client.get("/v1/me", headers=session)).status_code == 401
        told = [(await client.get("/v1/audit", headers=boss)).json() for client in clients]
        assert told[0] == told[1]
        assert [deed["status"] for deed in told[0]["items"]].count(401) == 5
        assert [deed["method"] for deed in told[0]["items"]].count("DELETE") == 1
        pages: list[dict[str, Any]] = []
        cursor = ""
        while len(pages) < 20:
            page = (await there.get(f"/v1/audit?limit=2{cursor}", headers=boss)).json()
            pages += page["items"]
            if page["cursor"] is None:
                break
            cursor = f"&cursor={page['cursor']}"
        assert pages == told[0]["items"]
    kept = everything_in(tmp_path)
    for secret in (word, made.json()["token"], boss["authorization"].split()[1]):
        assert secret.encode() not in kept


async def test_a_session_may_do_what_its_key_may_now(tmp_path: Path) -> None:
    store = MemoryStore()
    async with node(Runtime([talker()], store=store)) as client:
        key = await add_to_store(store.access, name="ann", roles=["admin"])
        made = await client.post("/v1/session", json={}, headers=with_key(key))
        session, id = with_key(made.json()["token"]), key.split("_")[1]
        assert (await client.get("/v1/audit", headers=session)).status_code == 200
        entry = await store.access.find_key(id)
        assert entry is not None
        await store.access.revoke_key(id)
        assert (await client.get("/v1/me", headers=session)).status_code == 401
        await store.access.add_key(id, msgspec.structs.replace(entry, roles=(KeyRole.READ,)))
        assert (await client.get("/v1/audit", headers=session)).status_code == 403


async def reads_until_closed(stream: httpx2.Response) -> str:
    return "".join([text async for text in stream.aiter_text()])


@pytest.mark.parametrize("by", ["key", "session", "token", "token of a session"])
async def test_a_stream_ends_with_the_key_or_session_that_opened_it(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key is revoked, or a session signed out, while its stream is open. Streams of others, and
    the run itself, go on."""
    monkeypatch.setattr(open_streams, "CHECK_SECONDS", 0.02)
    store, released = MemoryStore(), asyncio.Event()
    async with node(Runtime([slow(released)], store=store)) as client:
        mine, other = [await add_to_store(store.access, roles=["admin"]) for _ in range(2)]
        run = await client.post(
            "/v1/threads/t/runs", json={"messages": ["Go"]}, headers=with_key(mine)
        )
        shown, path = mine, "/v1/threads/t/events"
        if "session" in by:
            made = await client.post("/v1/session", json={}, headers=with_key(mine))
            shown = session = made.json()["token"]
        if "token" in by:
            asked = {"thread_id": "t", "ttl": 60}
            answer = await client.post("/v1/tokens", json=asked, headers=with_key(shown))
            shown = answer.json()["token"]
        async with (
            client.stream("GET", path, headers=STREAM | with_key(shown)) as stream,
            client.stream("GET", path, headers=STREAM | with_key(other)) as goes_on,
        ):
            lines = goes_on.aiter_lines()
            await anext(lines)
            if "session" in by:
                await client.delete("/v1/session", headers=with_key(session))
            else:
                await store.access.revoke_key(mine.split("_")[1])
            async with asyncio.timeout(550):
                told = await reads_until_closed(stream)
            assert told.endswith(": closing\n\n")
            again = await client.get(path, headers=STREAM | with_key(shown))
            assert again.status_code == 401
            live = await client.get(f"/v1/runs/{run.json()['run_id']}", headers=with_key(other))
            assert live.json()["status"] in ("created", "running")
            released.set()
            await client.post(f"/v1/runs/{run.json()['run_id']}/cancel", headers=with_key(other))
            async with asyncio.timeout(550):
                while "run_finish" not in await anext(lines):
                    pass


class Losable(MemoryStore):
    """A store whose keys cannot be read while it `is_away`."""

    is_away = False

    def __init__(self) -> None:
        super().__init__()
        self.looked = asyncio.Event()
        find_key = self.access.find_key

        async def find(id: str) -> KeyEntry | None:
            self.looked.set()
            if self.is_away:
                raise StoreUnavailable("the disk /secret/place is gone")
            return await find_key(id)

        self.access.find_key = find  # type: ignore[method-assign]


async def test_a_store_that_is_away_lets_no_one_in_and_cuts_no_one_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who has a good key is told to come back, not that the key is wrong; what is open stays."""
    monkeypatch.setattr(open_streams, "CHECK_SECONDS", 0.02)
    store = Losable()
    async with node(Runtime([talker()], store=store)) as client:
        key = with_key(await add_to_store(store.access, roles=["admin"]))
        await client.post("/v1/threads", json={"id": "t"}, headers=key)
        async with client.stream("GET", "/v1/threads/t/events", headers=STREAM | key) as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            store.is_away = True
            away = [await client.get("/v1/me", headers=key) for _ in range(2)]
            away.append(await client.post("/v1/runs", json=SAID, headers=key))
            for answer in away:
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert "secret" not in answer.text
            assert (await client.get("/health/live")).status_code == 200
            for _ in range(3):  # the stream is looked at, and stays
                store.looked.clear()
                await store.looked.wait()
            store.is_away = False
            assert (await client.get("/v1/me", headers=key)).status_code == 200
            await client.post("/v1/threads/t/runs", json=SAID, headers=key)
            async with asyncio.timeout(550):
                while "run_finish" not in await anext(lines):
                    pass


async def test_what_cannot_be_written_down_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The deed is done: its client is told so."""
    store = MemoryStore()

    async def refuse(deed: Deed) -> None:
        raise StoreUnavailable("the disk is full")

    store.access.note_deed = refuse  # type: ignore[method-assign]
    async with node(Runtime([talker()], store=store)) as client:
        key = with_key(await add_to_store(store.access, name="ann", roles=["admin"]))
        with caplog.at_level("INFO", "awaken.server.audit"):
            made = await client.post("/v1/threads", json={"id": "t"}, headers=key)
    assert made.status_code == 201
    assert "ann POST /v1/threads from 127.0.0.1: 201" in caplog.text
    assert "in the log alone, not in the store: the disk is full" in caplog.text


async def test_a_store_that_hangs_keeps_no_answer_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The audit is waited for, but not for ever."""
    monkeypatch.setattr(audit, "NOTE_SECONDS", 0.01)
    store = MemoryStore()

    async def hang(deed: Deed) -> None:
        await asyncio.Event().wait()

    store.access.note_deed = hang  # type: ignore[method-assign]
    async with node(Runtime([talker()], store=store)) as client:
        key = with_key(await add_to_store(store.access, name="ann", roles=["admin"]))
        made = await client.post("/v1/threads", json={"id": "t"}, headers=key)
    assert made.status_code == 201
    assert "not yet in the store" in caplog.text


async def test_a_locked_file_does_not_lock_clients_in(tmp_path: Path) -> None:
    """Another program holds the file's write lock: reading keys goes on, writing is told as 503."""
    file = tmp_path / "a.db"
    address = f"sqlite:///{file}?busy_timeout=0.05"
    async with node(Runtime([talker()], store=address)) as client:
        store = SqliteStore(file)
        key = with_key(await add_to_store(store.access, name="ann", roles=["admin"]))
        await store.close()
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            assert (await client.get("/v1/me", headers=key)).status_code == 200
            refused = await client.post("/v1/threads", json={"id": "t"}, headers=key)
            assert refused.status_code == 503
        finally:
            other.execute("ROLLBACK")
            other.close()
        made = await client.post("/v1/threads", json={"id": "t"}, headers=key)
        assert made.status_code == 201


async def test_the_log_and_the_audit_name_the_run_that_was_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """06 §3.10: a line a request, with its run."""
    store = MemoryStore()
    async with node(Runtime([talker()], store=store)) as client:
        key = with_key(await add_to_store(store.access, name="ann", roles=["admin"]))
        with caplog.at_level("INFO", "awaken.server.requests"):
            answer = await client.post("/v1/runs", json=SAID, headers=key)
        run = answer.json()["run_id"]
        ((_, deed),) = await store.access.list_deeds("", limit=9)
    assert deed.on == {"run": run}
    assert [record.facts["run"] for record in caplog.records if hasattr(record, "facts")] == [run]


async def test_strangers_cannot_fill_the_audit() -> None:
    """What no one known did is in the log; the store has a bit of it each minute."""
    store = MemoryStore()
    async with node(Runtime([talker()], store=store)) as client:
        for number in range(MAX_ANONYMOUS_DEEDS * 3):
            head = with_key(f"awk_{number}_" + "x" * 43)
            assert (await client.post("/v1/runs", json=SAID, headers=head)).status_code == 401
        kept = await store.access.list_deeds("", limit=10_000)
        # The minute may have ended meanwhile, once or twice.
        assert MAX_ANONYMOUS_DEEDS <= len(kept) < MAX_ANONYMOUS_DEEDS * 3
        key = with_key(await add_to_store(store.access, name="ann", roles=["admin"]))
        await client.post("/v1/threads", json={"id": "t"}, headers=key)
        ((_, newest),) = await store.access.list_deeds("", limit=1)
        assert (newest.who, newest.status) == ("ann", 201)


def test_a_server_that_is_killed_leaves_its_sessions_to_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Processes on one file. What the first one was told of, the second one knows; and a key that a
    third one revokes is over, with all that began with it."""
    file = tmp_path / "f.db"
    at = ("--store", f"sqlite:///{file}")
    assert main(["keys", "add", "--name", "ann", "--role", "admin", *at]) == 0
    key = capsys.readouterr().out.strip()
    with serving(file, "--keys", "store") as first, serving(file, "--keys", "store") as second:
        _, session = ask(first.address, "POST", "/v1/session", {}, with_key(key))
        _, thread = ask(first.address, "POST", "/v1/threads", {"id": "t"}, with_key(key))
        asked = {"thread_id": "t"}
        _, token = ask(first.address, "POST", "/v1/tokens", asked, with_key(session["token"]))
        first.kill()
        shown = [key, session["token"], token["token"]]

        def look() -> list[int]:
            path = f"/v1/threads/{thread['id']}"
            return [ask(second.address, "GET", path, head=with_key(one))[0] for one in shown]

        assert look() == [200, 200, 200]
        _, told = ask(second.address, "GET", "/v1/audit", head=with_key(key))
        assert [deed["route"] for deed in told["items"]] == ["/v1/threads", "/v1/session"]
        assert main(["keys", "revoke", key.split("_")[1], *at]) == 0
        assert look() == [401, 401, 401]
