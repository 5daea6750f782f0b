"""The sums of what runs have used equal those of their records (issue 31, part 6)."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken import Agent, Runtime
from awaken.core.event import InferenceComplete, RunEvent
from awaken.core.identity import RequestOrigin
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import NATURAL_END, Failed, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.run import RunRecord, RunRequestSnapshot
from awaken.core.search.usage import UsagePart, UsageRow, day_of, load_zone
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery
from awaken.errors import ConfigError
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000
NOW_MS = 1_763_500_000_000
TIMES = count(NOW_MS)
PARTS: tuple[UsagePart, ...] = ("day", "agent", "model", "user")

RUN = st.fixed_dictionaries(
    {
        "thread": st.integers(0, 3),
        "run": st.integers(0, 2),
        "agent": st.sampled_from("ab"),
        "model": st.sampled_from(["", "m", "n"]),
        "user": st.sampled_from([None, "ann", "eve"]),
        "started": st.integers(0, 3 * DAY_MS),
        "tokens": st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)),
        "cost": st.none() | st.integers(0, 10**9),
        "fails": st.booleans(),
        "then": st.sampled_from(["", "", "index", "delete", "rebuild"]),
    }
)


@settings(max_examples=25)
@given(st.lists(RUN, max_size=12), st.sampled_from(["UTC", "Asia/Kathmandu"]))
def test_sums_equal_those_of_the_records(given: list[dict[str, Any]], zone: str) -> None:
    """Whatever is written again, deleted, indexed meanwhile or built anew; by the days of any
    zone."""

    async def play(store: Store) -> None:
        async with Runtime([], store=store, recover=False) as runtime:
            await runtime.rebuild_search(zone=zone)
            models: dict[str, str] = {}
            for step in given:
                await write(store, step, models)
                match step["then"]:
                    case "index":
                        await runtime._searching().update()
                    case "delete":
                        await runtime.delete_thread(f"t{step['thread']}", force=True)
                    case "rebuild":
                        await runtime.rebuild_search()
            for asked in (None, "UTC", "America/New_York"):
                rows = await runtime.usage(PARTS, zone=asked)
                assert sums(rows) == await expected(store, models, asked or zone)
            for part in PARTS:
                total = await runtime.usage((part,))
                assert sum(row.runs for row in total) == len(await records(store))

    async def on_both() -> None:
        await play(MemoryStore())
        with TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "a.db")
            await play(store)
            await store.close()

    asyncio.run(on_both())


async def write(store: Store, step: dict[str, Any], models: dict[str, str]) -> None:
    """Write a run, for the first time or once more, with what it has used by now."""
    thread = f"t{step['thread']}"
    run_id = f"r{step['thread']}-{step['run']}"
    known = (await store.list_runs(RunQuery(run_id=run_id))).items
    head = await store.load_thread(thread)
    started = known[0].started_at_ms if known else NOW_MS + step["started"]
    run = RunRecord(
        run_id=run_id,
        thread_id=thread,
        agent_id=step["agent"],
        parent_run_id=f"r{step['thread']}-0" if step["run"] else None,
        request=known[0].request
        if known
        else RunRequestSnapshot(origin=RequestOrigin.USER, user=step["user"]),
        status=RunStatus.DONE,
        termination_reason=Failed(value="broke") if step["fails"] else NATURAL_END,
        created_at=1,
        updated_at=1,
        started_at_ms=started,
        input_tokens=step["tokens"][0],
        output_tokens=step["tokens"][1],
        cost=None if step["cost"] is None else step["cost"] / 10**9,
        revision=known[0].revision + 1 if known else 0,
    )
    if not known:
        models.pop(run_id, None)
    events: tuple[RunEvent, ...] = ()
    if step["model"]:
        models[run_id] = step["model"]
        done = InferenceComplete(model=step["model"], duration_ms=1)
        events = (RunEvent(thread_id=thread, run_id=run_id, at_ms=1, event=done),)
    length = head.message_count if head is not None else 0
    await store.commit(
        ThreadCommit(
            thread_id=thread, expected_length=length, run=run, events=events, at_ms=next(TIMES)
        )
    )


async def records(store: Store) -> Sequence[RunRecord]:
    return (await store.list_runs(RunQuery(limit=1_000))).items


async def expected(
    store: Store, models: dict[str, str], zone: str
) -> dict[tuple[str, ...], tuple[float, ...]]:
    found: defaultdict[tuple[str, ...], list[float]] = defaultdict(lambda: [0] * 6)
    for run in await records(store):
        user = run.request.user if run.request is not None else None
        day = day_of(run.started_at_ms or 0, load_zone(zone))
        row = found[(day, run.agent_id, models.get(run.run_id, ""), user or "")]
        is_failed = isinstance(run.termination_reason, Failed)
        tokens = run.input_tokens + run.output_tokens
        used = (run.input_tokens, run.output_tokens, round((run.cost or 0) * 10**9))
        more = (1, is_failed, *used, run.cost is None and tokens > 0)
        row[:] = [one + other for one, other in zip(row, more, strict=True)]
    return {key: tuple(row) for key, row in found.items()}


def sums(rows: Sequence[UsageRow]) -> dict[tuple[str, ...], tuple[float, ...]]:
    return {
        (row.day or "", row.agent or "", row.model or "", row.user or ""): (
            row.runs,
            row.failed,
            row.input_tokens,
            row.output_tokens,
            round(row.cost * 10**9),
            row.unpriced,
        )
        for row in rows
    }


async def test_what_a_delegate_used_is_counted_once() -> None:
    def answer(request: InferenceRequest) -> StreamResult:
        last = request.messages[-1]
        if last.role is Role.USER and last.text() == "ask":
            return tool_call_response("", "agent_run_clerk", "c1", {"prompt": "hello"})
        return text_response("done")

    clerk = Agent("clerk", model=FunctionModel(answer))
    desk = Agent("desk", model=FunctionModel(answer), delegates=[clerk])
    async with Runtime([desk, clerk]) as runtime:
        await runtime.run("desk", "ask", thread="t", user="ann")
        rows = await runtime.usage(["agent"])
        runs = await runtime.list_runs()
        assert {row.agent: row.runs for row in rows} == {"clerk": 1, "desk": 1}
        used = sum(run.input_tokens + run.output_tokens for run in runs)
        assert sum(row.input_tokens + row.output_tokens for row in rows) == used
        assert {row.user: row.runs for row in await runtime.usage(["user"])} == {"ann": 2}


async def test_a_mistake_is_named() -> None:
    async with Runtime([]) as runtime:
        with pytest.raises(ConfigError, match="by"):
            await runtime.usage(["colour"])  # type: ignore[list-item]
        with pytest.raises(ConfigError, match="after is a day such as"):
            await runtime.usage(after="soon")
        with pytest.raises(ConfigError, match="time zone 'Mars'"):
            await runtime.usage(zone="Mars")
        with pytest.raises(ConfigError, match="time zone 'Mars'"):
            await runtime.rebuild_search(zone="Mars")


async def test_the_order_of_sums() -> None:
    chance = random.Random(1)
    async with Runtime([]) as runtime:
        for n in range(20):
            step = {
                "thread": n,
                "run": 0,
                "agent": chance.choice("abc"),
                "model": "m",
                "user": None,
                "started": n % 3 * DAY_MS,
                "tokens": (1, 1),
                "cost": chance.randrange(10**9),
                "fails": False,
            }
            await write(runtime.store, step, {})
        rows = await runtime.usage(["day", "agent"])
        assert rows == sorted(rows, key=lambda row: (row.day or "", -row.cost))
        assert len(await runtime.usage(["day", "agent"], limit=2)) == 2
