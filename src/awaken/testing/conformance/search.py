"""Checks of stores that can be searched: how far threads are, and the index beside the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from awaken.core.search.index import (
    EntryUpdate,
    FoundPage,
    IndexedHead,
    IndexState,
    Searchable,
    SearchIndex,
    ThreadHead,
    ThreadUpdate,
)
from awaken.core.search.query import NANOS, SearchKind, parse_search, tag
from awaken.core.search.usage import UsageQuery, UsageRow
from awaken.core.store.store import Store
from awaken.core.thread import ThreadPatch
from awaken.testing.conformance.helpers import (
    DONE,
    RUNNING,
    WAITING,
    StoreCheck,
    Suite,
    record,
    says,
    write,
)

check = Suite[StoreCheck]()

DAY_MS = 86_400_000
NOW_MS = 1_760_000_000_000


def _searchable(store: Store) -> Searchable:
    assert isinstance(store, Searchable), "the store has no `list_heads` and `search_index`"
    return store


def _with_index(check_index: Callable[[SearchIndex], Awaitable[None]]) -> StoreCheck:
    """The check of an empty index as one of its store. The index is closed afterwards."""

    @wraps(check_index)
    async def check_store(store: Store) -> None:
        index = _searchable(store).search_index()
        try:
            await index.rebuild("UTC")
            await check_index(index)
        finally:
            await index.close()

    return check_store


def _head(commits: int = 1, **changes: Any) -> IndexedHead:
    return IndexedHead(**({"created_at": 1, "commits": commits, "events": commits} | changes))


def _run(run_id: str, *texts: str, **changes: Any) -> EntryUpdate:
    fields: dict[str, Any] = {"agent": "desk", "status": "finished", "started_ms": NOW_MS}
    return EntryUpdate(run_id=run_id, texts=texts, **(fields | changes))


def _thread(thread_id: str, *entries: EntryUpdate, **changes: Any) -> ThreadUpdate:
    fields: dict[str, Any] = {"scope": "", "before": None, "after": _head()}
    return ThreadUpdate(thread_id=thread_id, entries=entries, **(fields | changes))


async def _find(
    index: SearchIndex,
    text: str = "",
    *,
    scope: str | None = None,
    kind: SearchKind = "threads",
    before_key: int | None = None,
    limit: int = 50,
) -> FoundPage:
    terms = parse_search(text, now_ms=NOW_MS)
    return await index.find(terms, scope=scope, kind=kind, before_key=before_key, limit=limit)


async def _threads(index: SearchIndex, text: str = "", **options: Any) -> list[str]:
    page = await _find(index, text, **options)
    return [entry.thread_id for entry in page.entries]


async def _runs(index: SearchIndex, text: str = "", **options: Any) -> list[str | None]:
    page = await _find(index, text, kind="runs", **options)
    return [entry.run_id for entry in page.entries]


# -- heads ------------------------------------------------------------------------------------


@check
async def heads_are_listed_by_id(store: Store) -> None:
    """07 §6: how far each thread is; an index that compares them finds every commit."""
    for name in ("b", "a", "ü", "c"):
        await write(store, name, messages=says(name), at_ms=7)
    await write(store, "b", at_ms=8)
    await store.update_thread("a", ThreadPatch(title="A"))
    claimed = await store.claim("only claimed", at_ms=9)
    found = await _searchable(store).list_heads()
    assert [(head.thread_id, head.commits, head.revision) for head in found] == [
        ("a", 1, 1),
        ("b", 2, 0),
        ("c", 1, 0),
        ("ü", 1, 0),
    ]
    assert found[1] == ThreadHead(thread_id="b", created_at=7, updated_at=8, commits=2)
    page = await _searchable(store).list_heads(after="a", limit=2)
    assert [head.thread_id for head in page] == ["b", "c"]
    await store.release(claimed)


@check
async def active_heads_are_those_of_running_and_recent_threads(store: Store) -> None:
    for name, status, at_ms in (("a", DONE, 10), ("b", WAITING, 20), ("c", RUNNING, 5)):
        await write(store, name, run=record(f"r{name}", name, status=status), at_ms=at_ms)
    active = _searchable(store).list_active_heads
    assert {head.thread_id for head in await active(since_ms=20)} == {"b", "c"}
    assert {head.thread_id for head in await active(since_ms=6)} == {"a", "b", "c"}
    assert [head.thread_id for head in await active(since_ms=21)] == ["c"]


# -- finding ----------------------------------------------------------------------------------


@check
@_with_index
async def words_phrases_and_beginnings_are_found(index: SearchIndex) -> None:
    await index.apply(
        [
            _thread("t", _run("r", "My mug arrived in pieces", '{"order": 7}')),
            _thread("u", _run("s", "Naïve Straße, 東京都 and ПРИВЕТ")),
        ]
    )
    for text in ("mug", "MUG", "mug pieces", '"arrived in pieces"', "arr*", "order 7", "order:7"):
        assert await _threads(index, text) == ["t"], text
    for text in ("naive", "strasse", "straße", "京都", "привет", "東京*"):
        assert await _threads(index, text) == ["u"], text
    for text in ("mu", '"in arrived"', "mug naive", "都京"):
        assert await _threads(index, text) == [], text


@check
@_with_index
async def what_strangers_write_is_no_operator(index: SearchIndex) -> None:
    await index.apply([_thread("t", _run("r", "a b OR NEAR c"))])
    for text in (
        "a OR zebra",
        "NOT zebra",
        "a AND zebra",
        "NEAR(a zebra)",
        "words : zebra",
        "place:zebra",
        "^zebra",
        "zebra') OR 1=1 --",
        'zebra" OR "a"',
        "{words} : zebra",
        "zebra | a",
        "!zebra",
        "zebra & a",
        "zebra:* a",
        "\\ zebra",
        "zebra\0a",
    ):
        assert await _threads(index, text) == [], text
    assert await _threads(index, "a 'b'") == ["t"]
    assert await _threads(index, "or near") == ["t"]


@check
@_with_index
async def filters_select_runs_and_their_threads(index: SearchIndex) -> None:
    made = (
        _run(
            "r1",
            "mug",
            agent="clerk",
            model="m1",
            input_tokens=9_000,
            output_tokens=1_500,
            cost=2 * NANOS,
            tags=(tag("agent", "clerk"), tag("model", "m1"), tag("tool", "refund")),
        ),
        _run("r2", "mug", status="failed", started_ms=NOW_MS - DAY_MS, tags=(tag("user", "eve"),)),
    )
    labels = (tag("label", "team"), tag("label", "team=sales"))
    await index.apply([_thread("t", *made, tags=labels), _thread("u", _run("s", "mug"))])
    assert await _runs(index, "agent:clerk") == ["r1"]
    assert await _runs(index, "model:m1 tool:refund") == ["r1"]
    assert await _runs(index, "status:failed mug") == ["r2"]
    assert await _runs(index, "status:done") == ["s", "r1", "r2"]
    assert await _runs(index, "user:eve") == ["r2"]
    assert await _runs(index, "label:team=sales mug") == ["r1", "r2"]
    assert await _threads(index, "label:team") == ["t"]
    assert await _runs(index, "tokens:>10k") == ["r1"]
    assert await _runs(index, "cost:>1.5") == ["r1"]
    assert await _runs(index, "cost:<1") == []
    assert await _runs(index, "after:12h") == ["s", "r1"]
    assert await _runs(index, "before:12h mug") == ["r2"]
    assert await _runs(index, "agent:clerk user:eve") == []


@check
@_with_index
async def a_scope_finds_its_own(index: SearchIndex) -> None:
    await index.apply(
        [
            _thread(f"{scope}/t", _run(f"{scope}/r", "mug", tags=(tag("agent", "x"),)), scope=scope)
            for scope in ("acme", "zeta")
        ]
        + [_thread("t", _run("r", "mug"))]
    )
    for text in ("mug", "agent:x", "", "agent:x mug"):
        assert await _threads(index, text, scope="acme") == ["acme/t"], text
    assert await _threads(index, "mug", scope="") == ["t"]
    assert await _threads(index, "mug", scope="other") == []
    assert len(await _threads(index, "mug")) == 3


@check
@_with_index
async def pages_hold_each_thread_once(index: SearchIndex) -> None:
    long = "mug " * 30_000  # several parts of a text
    await index.apply(
        [
            _thread(
                f"t{n}",
                *(_run(f"r{n}-{k}", "mug", long, started_ms=NOW_MS + 10 * k + n) for k in range(3)),
            )
            for n in range(5)
        ]
    )
    kinds: tuple[tuple[SearchKind, int], ...] = (("threads", 5), ("runs", 15))
    for text in ("mug", ""):
        for kind, count in kinds:
            seen: list[str | None] = []
            key: int | None = None
            while True:
                page = await _find(index, text, kind=kind, before_key=key, limit=2)
                seen += [e.thread_id if kind == "threads" else e.run_id for e in page.entries]
                if (key := page.next_key) is None:
                    break
            assert len(seen) == len(set(seen)) == count, (text, kind, seen)
            assert seen == sorted(seen, key=lambda name: str(name)[-1:], reverse=True) or (
                kind == "threads"
            )
    assert await _threads(index, "mug", limit=1) == ["t4"]


# -- writing ----------------------------------------------------------------------------------


@check
@_with_index
async def an_update_is_written_once(index: SearchIndex) -> None:
    first = _thread("t", _run("r", "mug", input_tokens=5))
    assert await index.apply([first]) == 1
    assert await index.apply([first]) == 0
    second = _thread(
        "t", _run("r", "cup", input_tokens=8, status="failed"), before=_head(), after=_head(2)
    )
    assert await index.apply([second, second]) == 1
    assert await _runs(index, "mug cup status:failed") == ["r"]
    assert await _runs(index, "status:finished") == []
    assert await index.load_heads(["t", "u"]) == {"t": _head(2)}
    assert await index.sum_usage(UsageQuery(by=())) == [
        UsageRow(runs=1, failed=1, input_tokens=8, unpriced=1)
    ]


@check
@_with_index
async def a_title_is_replaced(index: SearchIndex) -> None:
    title = EntryUpdate(is_title=True, started_ms=1, texts=("Holiday plans", "t"))
    await index.apply([_thread("t", title, _run("r", "mug"), tags=(tag("label", "old"),))])
    renamed = EntryUpdate(is_title=True, started_ms=1, texts=("Work", "t"))
    after = _head(revision=1)
    labels = (tag("label", "new"),)
    await index.apply([_thread("t", renamed, before=_head(), after=after, tags=labels)])
    assert await _threads(index, "holiday") == []
    assert await _threads(index, "work") == await _threads(index, "mug label:new") == ["t"]
    assert await _threads(index, "label:old") == []
    assert await _runs(index, "work") == []


@check
@_with_index
async def what_is_removed_is_not_found(index: SearchIndex) -> None:
    """07/CO-42, in the index."""
    updates = [_thread(name, _run(f"r-{name}", f"mug {name}", input_tokens=1)) for name in "abc"]
    await index.apply(updates)
    await index.remove(["a", "unknown"])
    reset = _thread("b", _run("new", "cup"), before=_head(), after=_head(5), is_reset=True)
    await index.apply([reset])
    assert await _threads(index, "mug") == ["c"]
    assert await _runs(index, "cup") == ["new"]
    assert set(await index.list_heads("", None)) == {"b", "c"}
    assert set(await index.list_heads("b", "c")) == {"c"}
    assert set(await index.list_heads("", "b")) == {"b"}
    (row,) = await index.sum_usage(UsageQuery(by=()))
    assert (row.runs, row.input_tokens) == (2, 1)
    await index.apply([updates[0]])
    assert len(await _threads(index, "mug")) == 2


@check
@_with_index
async def an_index_has_one_owner(index: SearchIndex) -> None:
    """Two processes on one store: one of them indexes."""
    assert await index.claim("one", 60, IndexState(pending=3, behind_ms=7))
    assert not await index.claim("two", 60, IndexState())
    assert await index.claim("one", 60, IndexState(pending=2, is_complete=True))
    state = await index.load_state()
    assert (state.owner, state.pending, state.is_complete) == ("one", 2, True)
    await index.release("two")
    assert not await index.claim("two", 60, IndexState())
    await index.release("one")
    assert (await index.load_state()).owner is None
    assert await index.claim("two", -1, IndexState())
    assert (await index.load_state()).owner is None
    assert await index.claim("one", 60, IndexState())
    assert (await index.load_state()).is_complete


@check
@_with_index
async def an_index_is_rebuilt_from_nothing(index: SearchIndex) -> None:
    await index.apply([_thread("t", _run("r", "mug"))])
    await index.claim("one", 60, IndexState(is_complete=True))
    await index.rebuild("Asia/Kathmandu")
    assert await _threads(index, "mug") == []
    state = await index.load_state()
    assert (state.zone, state.threads, state.is_complete) == ("Asia/Kathmandu", 0, False)
    await index.rebuild()
    assert (await index.load_state()).zone == "Asia/Kathmandu"
    await index.close()
    await index.apply([_thread("t", _run("r", "mug"))])
    assert await _threads(index, "mug") == ["t"]


# -- sums -------------------------------------------------------------------------------------


@check
@_with_index
async def sums_are_by_day_agent_model_and_user(index: SearchIndex) -> None:
    """A day is one of a named time zone: at 23:00 UTC it is the next one in Kathmandu."""
    evening = 1_763_593_200_000  # 2025-11-19, 23:00 UTC
    given: list[dict[str, Any]] = [
        {"agent": "a", "model": "m", "user": "ann", "cost": NANOS, "input_tokens": 10},
        {"agent": "b", "model": "m", "user": "ann", "cost": None, "output_tokens": 5},
        {"agent": "a", "model": "n", "user": "", "cost": 2 * NANOS, "status": "failed"},
    ]
    await index.apply(
        [
            _thread(f"t{n}", _run(f"r{n}", started_ms=evening + n * DAY_MS, **fields))
            for n, fields in enumerate(given)
        ]
    )
    days = await index.sum_usage(UsageQuery(by=("day",)))
    assert [(row.day, row.cost) for row in days] == [
        ("2025-11-19", 1.0),
        ("2025-11-20", 0.0),
        ("2025-11-21", 2.0),
    ]
    elsewhere = await index.sum_usage(UsageQuery(by=("day",), zone="Asia/Kathmandu"))
    assert [row.day for row in elsewhere] == ["2025-11-20", "2025-11-21", "2025-11-22"]
    agents = await index.sum_usage(UsageQuery(by=("agent", "model")))
    assert [(row.agent, row.model, row.failed, row.unpriced) for row in agents] == [
        ("a", "n", 1, 0),
        ("a", "m", 0, 0),
        ("b", "m", 0, 1),
    ]
    users = await index.sum_usage(UsageQuery(by=("user",)))
    assert {row.user: (row.runs, row.cost) for row in users} == {"": (1, 2.0), "ann": (2, 1.0)}
    for query in (
        UsageQuery(by=(), user="ann", after="2025-11-20"),
        UsageQuery(by=(), agent="b", before="2025-11-21"),
        UsageQuery(by=(), agent="b", user="ann", zone="Asia/Kathmandu", after="2025-11-21"),
    ):
        (row,) = await index.sum_usage(query)
        assert (row.runs, row.output_tokens) == (1, 5)
    assert await index.sum_usage(UsageQuery(by=(), scope="acme")) == []
