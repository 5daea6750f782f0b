"""Searching threads and runs by what was said, on every store (07 §6, CO-40 to CO-42)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, Message, RedactedString, Runtime, tool
from awaken.core.identity import Principal
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.search.query import SearchQuery, parse_search
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import CommitView
from awaken.core.thread import ThreadPatch
from awaken.errors import InferenceFailed, InvalidRecord, InvalidSearch, SearchUnavailable
from awaken.runtime.search.service import SearchHit
from awaken.stores.memory import MemoryStore
from awaken.stores.postgres import PostgresStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FailingStore, FunctionModel, text_response, tool_call_response
from postgres_kit import Postgres

pytestmark = pytest.mark.anyio

KEY = RedactedString("sk-verysecretkey-123456")


@tool
async def find_order(number: int) -> str:
    """Find an order."""
    return f"order {number} was shipped by zeppelin{' x' * 10_000} unreachable"


@tool
async def connect() -> dict[str, Any]:
    """Connect."""
    return {"key": KEY}


def answer(request: InferenceRequest) -> StreamResult:
    last = request.messages[-1]
    said = last.text()
    match said.split()[0] if last.role is Role.USER else "":
        case "order":
            return tool_call_response("looking", "find_order", "c1", {"number": 77})
        case "connect":
            return tool_call_response("one moment", "connect", "c1", {})
        case "fail":
            raise RuntimeError("the flux capacitor broke")
        case "ask":
            return tool_call_response("asking", "agent_run_clerk", "c1", {"prompt": "paperwork"})
    return text_response(f"heard {said[:20]}")


def agents() -> list[Agent]:
    clerk = Agent("clerk", model=FunctionModel(answer))
    return [
        Agent("desk", model=FunctionModel(answer), tools=[find_order, connect], delegates=[clerk]),
        clerk,
    ]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    store: Store = MemoryStore()
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "a.db")
    elif request.param == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres")
        store = PostgresStore(postgres.address())
    async with Runtime(agents(), store=store) as opened:
        yield opened
    await store.close()


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


async def threads(runtime: Runtime, text: str, **options: Any) -> list[str]:
    return [hit.thread_id for hit in await runtime.search(text, **options)]


async def only(runtime: Runtime, text: str, **options: Any) -> SearchHit:
    (hit,) = await runtime.search(text, **options)
    return hit


async def test_messages_arguments_results_errors_and_titles_are_found(runtime: Runtime) -> None:
    """07/CO-40, for a runtime that searches itself: at once."""
    await runtime.run("desk", "order of a purple mug", thread="t1")
    await runtime.update_thread("t1", ThreadPatch(title="Balloons"))
    with pytest.raises(InferenceFailed):
        await runtime.run("desk", "fail please", thread="t2")
    for text in ("purple", "looking", "77", "find_order", "zeppelin", "balloons", "t1"):
        assert await threads(runtime, text) == ["t1"], text
    for text in ('"flux capacitor"', "status:failed"):
        assert await threads(runtime, text) == ["t2"], text
    assert await threads(runtime, "unreachable") == []  # behind the first 8 KB of a result
    hit = await only(runtime, "zeppelin", kind="runs")
    assert (hit.title, hit.agent_id, hit.status) == ("Balloons", "desk", "finished")
    assert hit.question == "order of a purple mug"
    assert "shipped by zeppelin" in hit.snippet
    assert len(hit.snippet) < 200


async def test_a_deleted_thread_is_not_found_any_more(runtime: Runtime) -> None:
    """07/CO-42: not even before the index has heard of it."""
    for name in ("a", "b", "c"):
        await runtime.run("desk", f"mug {name}", thread=name)
    assert await threads(runtime, "mug") == ["c", "b", "a"]
    await runtime.delete_thread("b", children="cascade")
    service = runtime._searching()
    page = await service._index.find(
        parse_search("mug"), scope=None, kind="threads", before_key=None, limit=9
    )
    assert len(page.entries) == 3
    hits = await service._hits(SearchQuery(), page.entries, [])
    assert [hit.thread_id for hit in hits] == ["c", "a"]
    assert await threads(runtime, "mug") == ["c", "a"]
    await asyncio.sleep(0.01)
    await runtime.prune(older_than=0)
    assert await threads(runtime, "mug") == []
    assert (await runtime.search("mug")).state.threads == 0
    await runtime.run("desk", "cup", thread="b")
    assert await threads(runtime, "mug") == []
    assert await threads(runtime, "cup") == ["b"]


async def test_a_thread_made_anew_under_its_id_is_another_one(runtime: Runtime) -> None:
    await runtime.run("desk", "mug", thread="t")
    assert await threads(runtime, "mug") == ["t"]
    await runtime.delete_thread("t")
    await asyncio.sleep(0.01)
    await runtime.run("desk", "cup", thread="t")
    assert await threads(runtime, "cup") == ["t"]
    assert await threads(runtime, "mug") == []


async def test_a_copy_is_found_beside_its_original(runtime: Runtime) -> None:
    await runtime.run("desk", "mug", thread="t")
    await runtime.run("desk", "cup", thread="t")
    await runtime.fork("t", new="copy")
    await runtime.fork("t", at=3, new="early")
    assert set(await threads(runtime, "mug")) == {"t", "copy", "early"}
    assert set(await threads(runtime, "cup")) == {"t", "copy"}
    hit = next(hit for hit in await runtime.search("cup") if hit.thread_id == "copy")
    assert hit.run_id is None
    assert await threads(runtime, "cup", kind="runs") == ["t"]
    await runtime.delete_thread("t")
    assert await threads(runtime, "cup") == ["copy"]


async def test_what_was_rewound_is_not_found(runtime: Runtime) -> None:
    await runtime.run("desk", "first", thread="t")
    await runtime.run("desk", "mug", thread="t")
    assert await threads(runtime, "mug") == ["t"]
    (message,) = [m for m in await runtime.messages("t") if m.text() == "mug"]
    await runtime.run("desk", "cup", thread="t", rewind_to=message.id)
    for text, found in (("mug", []), ("cup", ["t"]), ("first", ["t"])):
        assert await threads(runtime, text) == found, text
    await runtime.rebuild_search()
    for text, found in (("mug", []), ("cup", ["t"]), ("first", ["t"])):
        assert await threads(runtime, text) == found, text


class RewindingStore(MemoryStore):
    """Calls `between` once, when a thread's commits were read to find what is out of view and are
    about to be read again for their texts."""

    between: Callable[[], Awaitable[object]] | None = None
    reads = 0

    async def load_commits(self, thread_id: str, **options: Any) -> Sequence[CommitView]:
        self.reads += 1
        if self.reads == 3 and self.between is not None:
            await self.between()
        return await super().load_commits(thread_id, **options)


async def test_a_thread_that_is_rewound_again_while_it_is_read_hides_both() -> None:
    store = RewindingStore()
    agent = Agent("desk", model=FunctionModel(answer))
    async with Runtime([agent], store=store) as runtime:
        for word in ("first", "mug", "jug"):
            await runtime.run("desk", word, thread="t")
        said = {message.text(): message.id for message in await runtime.messages("t")}
        assert await threads(runtime, "mug") == await threads(runtime, "jug") == ["t"]
        await runtime.run("desk", "cup", thread="t", rewind_to=said["jug"])
        store.between = partial(runtime.run, "desk", "tin", thread="t", rewind_to=said["mug"])
        store.reads = 0
        await threads(runtime, "cup")
        assert store.reads >= 3
        for text, found in (("jug", []), ("mug", []), ("tin", ["t"]), ("first", ["t"])):
            assert await threads(runtime, text) == found, text


async def test_titles_labels_and_users_follow_their_changes(runtime: Runtime) -> None:
    await runtime.run("desk", "mug", thread="t", user="ann", labels={"team": "sales"})
    assert await threads(runtime, "user:ann label:team=sales mug") == ["t"]
    await runtime.update_thread(
        "t", ThreadPatch(title="Old plans", labels={"team": "legal", "vip": "yes"})
    )
    assert await threads(runtime, "label:team=legal label:vip mug") == ["t"]
    assert await threads(runtime, '"old plans"') == ["t"]
    await runtime.update_thread("t", ThreadPatch(title="New", labels={"vip": None}))
    assert await threads(runtime, "label:vip") == []
    assert await threads(runtime, "plans") == []
    assert await threads(runtime, "new") == ["t"]


async def test_delegates_and_handed_over_runs_are_found_by_their_agents(runtime: Runtime) -> None:
    await runtime.run("desk", "ask a clerk", thread="t")
    hit = await only(runtime, "paperwork agent:clerk", kind="runs")
    assert hit.thread_id != "t"
    assert await threads(runtime, "tool:agent_run_clerk") == ["t"]
    assert await threads(runtime, "agent:desk") == ["t"]


async def test_what_is_for_the_model_alone_is_not_indexed(runtime: Runtime) -> None:
    given = [Message.internal_user("whisper"), Message.user("aloud")]
    await runtime.run("desk", given, thread="t")
    assert await threads(runtime, "aloud") == ["t"]
    assert await threads(runtime, "whisper") == []


async def test_secrets_are_stars_in_the_index(runtime: Runtime, tmp_path: Path) -> None:
    await runtime.run("desk", "connect now", thread="t")
    assert await threads(runtime, "connect") == ["t"]
    assert await threads(runtime, "verysecretkey") == []
    assert all(b"verysecretkey" not in content for content in files(tmp_path).values())


async def test_tenants_find_their_own(runtime: Runtime) -> None:
    acme = Principal(id="p", scope="acme")
    await runtime.create_thread("t", principal=acme)
    await runtime.run("desk", "mug", thread="acme/t")
    await runtime.run("desk", "mug", thread="t")
    assert await threads(runtime, "mug", scope="acme") == ["acme/t"]
    assert await threads(runtime, "mug", scope="") == ["t"]
    assert await threads(runtime, "mug") == ["t", "acme/t"]


async def test_a_forgotten_tenant_leaves_the_index_at_once(runtime: Runtime) -> None:
    acme = Principal(id="p", scope="acme")
    await runtime.create_thread("t", ThreadPatch(title="Mugs"), principal=acme)
    await runtime.run("desk", "mug", thread="t")
    assert await threads(runtime, "mug*") == ["t", "acme/t"]
    await runtime.forget_scope("acme")
    assert set(await runtime._searching()._index.list_heads("", None)) == {"t"}


async def test_pages_lead_to_everything_once(runtime: Runtime) -> None:
    for n in range(7):
        await runtime.run("desk", f"mug {n}", thread=f"t{n}")
        await runtime.run("desk", f"mug again {n}", thread=f"t{n}")
    seen: list[str] = []
    page = await runtime.search("mug", limit=3)
    while True:
        seen += [hit.thread_id for hit in page]
        if page.cursor is None:
            break
        page = await runtime.search("mug", limit=3, cursor=page.cursor)
    assert seen == [f"t{n}" for n in reversed(range(7))]
    first = await runtime.search("mug", limit=3)
    for text, cursor in (("cup", first.cursor), ("mug", "nonsense"), ("mug", "bnVsbA==")):
        with pytest.raises(InvalidRecord):
            await runtime.search(text, cursor=cursor)


async def test_commits_that_have_no_events_are_indexed_too(runtime: Runtime) -> None:
    for n in range(450):
        message = Message.user(f"import number{n}", id=f"m{n}")
        commit = ThreadCommit(thread_id="t", expected_length=n, messages=(message,), at_ms=n)
        await runtime.store.commit(commit)
    assert await threads(runtime, "number449") == ["t"]
    assert await threads(runtime, "number0 import") == ["t"]
    commit = ThreadCommit(thread_id="t", expected_length=450, messages=(Message.user("late"),))
    await runtime.store.commit(commit)
    assert await threads(runtime, "late") == ["t"]


async def test_a_search_of_everything_lists_the_newest_first(runtime: Runtime) -> None:
    for name in ("a", "b", "a"):
        await runtime.run("desk", name, thread=name)
        await asyncio.sleep(0.002)
    assert await threads(runtime, "") == ["a", "b"]
    page = await runtime.search(kind="runs")
    assert [hit.question for hit in page] == ["a", "b", "a"]
    assert page.state.is_complete
    assert page.state.threads == 2


async def test_an_error_names_the_part_that_is_wrong(runtime: Runtime) -> None:
    for text, part, says in (
        ("mug agnet:desk", "agnet:desk", "write agent:desk"),
        ("cost:1", "cost:1", "write cost:>1"),
        ('mug "in pieces', '"in pieces', "quotation mark"),
        ("status:broken", "status:broken", "failed"),
        ("after:soon", "after:soon", "after:2026-11-19"),
        ("user:", "user:", "user:ann"),
    ):
        with pytest.raises(InvalidSearch, match=says) as caught:
            await runtime.search(text)
        assert caught.value.part == part
        assert str(caught.value).startswith(part)
    many = " ".join(f"w{n}" for n in range(10_000))
    for text in (many, many[:1_900]):
        with pytest.raises(InvalidSearch, match=r"at most|more than 64 words"):
            await runtime.search(text)


async def test_nothing_is_loaded_or_made_before_the_first_search(tmp_path: Path) -> None:
    async with Runtime(agents(), store=f"sqlite:///{tmp_path}/a.db") as runtime:
        await runtime.run("desk", "mug", thread="t")
        await runtime.prune(older_than=1e9)
        await runtime.forget_scope("acme")
        assert not [name for name in files(tmp_path) if "search" in name]
        await runtime.search("mug")
        assert "a.db-search" in files(tmp_path)


async def test_a_store_without_an_index_says_so() -> None:
    class Plain(FailingStore):
        def __getattr__(self, name: str) -> Any:
            if name in ("search_index", "list_heads", "list_active_heads"):
                raise AttributeError(name)
            return super().__getattr__(name)

    async with Runtime(agents(), store=Plain(MemoryStore(), {})) as runtime:
        with pytest.raises(SearchUnavailable, match="Plain cannot be searched"):
            await runtime.search("mug")
