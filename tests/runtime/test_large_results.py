"""Tool results that are too large for the log (06 §2.10)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, Runtime, tool
from awaken.codec import dumps
from awaken.core.blobs import BlobStore, put_bytes, read_bytes
from awaken.core.event import ToolCallDone
from awaken.core.lifecycle import Phase
from awaken.core.llm import InferenceRequest
from awaken.core.message import BlobSource, Message, Role, Text
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.tool import ToolResult
from awaken.errors import BlobNotFound, ConfigError, StoreUnavailable
from awaken.runtime.replay import first_difference, read_recording, replay
from awaken.stores import MemoryStore, SqliteStore, Store
from awaken.testing import (
    FakeClock,
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
    tool_calls_response,
)

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
LATER = 2**50
DAY = 86_400.0


_AnyStore: Any = object


class Watched(_AnyStore):  # type: ignore[misc]  # it passes for whatever store it wraps
    """A store that remembers the commits it was given."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.commits: list[ThreadCommit] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.commits.append(commit)
        return await self._store.commit(commit)

    @property
    def largest(self) -> int:
        """The bytes of the largest commit."""
        return max(len(dumps(commit)) for commit in self.commits)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    opened: Store = (
        MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "awaken.db")
    )
    await opened.open()
    yield Watched(opened)
    await opened.close()


def agent(result: Any, *answers: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    """An agent whose model fetches `result`, then gives the other answers."""

    def fetch() -> Any:
        """Fetch it."""
        return result

    model = ScriptedModel([tool_call_response("", "fetch", "c1", {}), *(answers or ("done",))])
    return Agent("a", model=model, tools=[fetch], **options), model


def tool_message(messages: Iterable[Message]) -> Message:
    return next(message for message in messages if message.role is Role.TOOL)


def whole_of(message: Message) -> BlobSource:
    (block,) = message.content
    assert isinstance(block, Text)
    assert block.whole is not None
    return block.whole


async def end_of_call(runtime: Runtime) -> ToolCallDone:
    events = [entry.event async for entry in runtime.events("t", follow=False)]
    (done,) = [event for event in events if isinstance(event, ToolCallDone)]
    return done


def blobs_of(runtime: Runtime) -> BlobStore:
    assert runtime.blobs is not None
    return runtime.blobs


def text_of(size: int) -> str:
    """Text without a period, so that a part in the wrong place is noticed."""
    lines = (
        f'line {number}: äöü \U0001f600 "quoted" \\ {number * 7919}\n' for number in range(size)
    )
    found, length = [], 0
    for line in lines:
        found.append(line)
        length += len(line.encode())
        if length >= size:
            break
    return "".join(found)


# -- in ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["text", "data", "both"])
async def test_a_large_result_adds_little_to_its_commit_and_comes_back_whole(
    store: Watched, shape: str
) -> None:
    """06/SV-14: 10 MiB add at most 8 KiB, and come back byte for byte."""
    text = text_of(10 * MIB)
    data = {"lines": text.splitlines()}
    small, _ = agent("small")
    result: Any = {
        "text": text,
        "data": data,
        "both": ToolResult.success_with_message("fetch", data, text),
    }[shape]
    large, _ = agent(result)

    async with Runtime([small], store=store) as runtime:
        await runtime.run("a", "fetch", thread="small")
    before = store.largest
    async with Runtime([large], store=store) as runtime:
        await runtime.run("a", "fetch", thread="t")
        message = tool_message(await runtime.messages("t"))
        _, content = await read_bytes(blobs_of(runtime), "", whole_of(message).id)
        done = await end_of_call(runtime)
        _, kept = await read_bytes(blobs_of(runtime), "", done.result.data["id"])

    assert store.largest <= before + 8 * 1024
    assert content.decode() == (text if shape != "data" else dumps(data).decode())
    assert kept.decode() == (text if shape == "text" else dumps(data).decode())


async def test_a_message_holds_the_first_4_kib_and_says_how_to_read_on(store: Watched) -> None:
    large, model = agent("x" * 100_000)
    async with Runtime([large], store=store) as runtime:
        await runtime.run("a", "fetch", thread="t")
        message = tool_message(await runtime.messages("t"))

    whole = whole_of(message)
    assert (whole.size, whole.media_type, whole.name) == (
        100_000,
        "text/plain; charset=utf-8",
        "fetch",
    )
    note = f"[the first 4096 of 100000 bytes; read on with read_result, id '{whole.id}']"
    assert message.text() == "x" * 4096 + "\n" + note
    assert tool_message(model.requests[1].messages).text() == message.text()


async def test_text_that_json_writes_with_escapes_is_cut_shorter(store: Watched) -> None:
    large, _ = agent("\x01" * 100_000)
    async with Runtime([large], store=store) as runtime:
        await runtime.run("a", "fetch", thread="t")
        message = tool_message(await runtime.messages("t"))

    assert len(dumps(message)) < 5_000
    assert message.text().startswith("\x01" * 600)


async def test_a_result_within_the_limit_stays_as_it_is(store: Watched) -> None:
    just, model = agent("x" * 65_536)
    async with Runtime([just], store=store) as runtime:
        await runtime.run("a", "fetch", thread="t")
        message = tool_message(await runtime.messages("t"))

    assert message.content == (Text(text="x" * 65_536),)
    assert [tool.id for tool in model.requests[1].tools] == ["fetch"]


async def test_the_limit_counts_bytes_and_is_an_option(store: Watched) -> None:
    large, _ = agent("ä" * 6_000)
    async with Runtime([large], store=store, max_inline_result=10_000) as runtime:
        await runtime.run("a", "fetch", thread="t")
        assert whole_of(tool_message(await runtime.messages("t"))).size == 12_000


async def test_a_limit_below_the_beginning_that_stays_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_inline_result"):
        Runtime([], max_inline_result=1_000)


async def test_large_data_beside_a_short_text_leaves_the_event_only(store: Watched) -> None:
    """The model reads the short text whole, so it needs no tool."""
    rows = {"rows": ["x" * 100] * 2_000}
    large, model = agent(ToolResult.success_with_message("fetch", rows, "2000 rows"))
    async with Runtime([large], store=store) as runtime:
        await runtime.run("a", "fetch", thread="t")
        message = tool_message(await runtime.messages("t"))
        done = await end_of_call(runtime)
        _, content = await read_bytes(blobs_of(runtime), "", done.result.data["id"])

    assert message.content == (Text(text="2000 rows"),)
    assert done.result.message == "2000 rows"
    assert json.loads(content) == rows
    assert [tool.id for tool in model.requests[1].tools] == ["fetch"]


async def test_hooks_see_the_whole_result(store: Watched) -> None:
    seen: list[int] = []

    class Looks:
        id = "looks"

        def register(self, registrar: Any) -> None:
            registrar.hook(Phase.AFTER_TOOL_EXECUTE, self.look)

        async def look(self, ctx: Any) -> None:
            seen.append(len(ctx.tool_result.model_text()))

    large, _ = agent("x" * 100_000, plugins=[Looks()])
    async with Runtime([large], store=store) as runtime:
        await runtime.run("a", "fetch", thread="t")

    assert seen == [100_000]


# -- out --------------------------------------------------------------------------------------


async def test_the_model_reads_on_with_read_result(store: Watched) -> None:
    """06 §2.10: offered from the step after the first result that needs it."""
    text = text_of(200_000)
    parts: list[str] = []

    def fetch() -> str:
        """Fetch it."""
        return text

    def answer(request: Any) -> Any:
        if not request.messages[-1].tool_call_id:
            return tool_call_response("", "fetch", "c1", {})
        assert [tool.id for tool in request.tools] == ["fetch", "read_result"]
        shown = request.messages[-1].text()
        if request.messages[-1].tool_call_id == "c1":
            place = {"offset": 0}
        else:
            part, _, note = shown.rpartition("\n[bytes ")
            parts.append(part)
            if "this is its end" in note:
                return text_response("done")
            place = {"offset": int(note.rpartition("offset=")[2].rstrip("]"))}
        id = whole_of(next(m for m in request.messages if m.tool_call_id == "c1")).id
        length = 50_001 if parts else 1
        return tool_call_response(
            "", "read_result", f"c{len(parts) + 2}", {"id": id, "length": length, **place}
        )

    offered: list[list[str]] = []

    def watched(request: Any) -> Any:
        offered.append([tool.id for tool in request.tools])
        return answer(request)

    reader = Agent("a", model=FunctionModel(watched), tools=[fetch])
    async with Runtime([reader], store=store) as runtime:
        result = await runtime.run("a", "fetch", thread="t")

    assert result.response == "done"
    assert offered[0] == ["fetch"]
    assert "".join(parts) == text
    assert [len(part.encode()) for part in parts][:2] == [4, 49_999], "characters stay whole"


async def test_a_later_run_of_the_thread_is_offered_the_tool_at_once(store: Watched) -> None:
    large, model = agent("x" * 100_000, "done", "again", "new")
    async with Runtime([large], store=store) as runtime:
        await runtime.run("a", "fetch", thread="t")
        await runtime.run("a", "and?", thread="t")
        await runtime.fork("t", new="fork")
        await runtime.run("a", "and?", thread="fork")

    offered = [[tool.id for tool in request.tools] for request in model.requests]
    assert offered == [["fetch"], *[["fetch", "read_result"]] * 3]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"id": "0" * 32}, "no result with the id"),
        ({"id": "../../etc/passwd"}, "no result with the id"),
        ({"id": "ID", "offset": 100_000}, "no range"),
        ({"id": "ID", "offset": -1}, "Invalid arguments"),
        ({"id": "ID", "offset": "x"}, "Invalid arguments"),
        ({"offset": 0}, "Invalid arguments"),
        (
            {"id": "ID", "offset": 99_999, "length": 10**12},
            "x\n[bytes 99999 to 100000 of 100000; this is its end]",
        ),
    ],
)
async def test_what_the_model_asks_for_wrongly_is_told_to_it(
    store: Watched, arguments: dict[str, Any], says: str
) -> None:

    def fetch() -> str:
        """Fetch it."""
        return "x" * 100_000

    def answer(request: Any) -> Any:
        last = request.messages[-1]
        if last.role is Role.USER:
            return tool_call_response("", "fetch", "c1", {})
        if last.tool_call_id == "c1":
            given = dict(arguments)
            if given.get("id") == "ID":
                given["id"] = whole_of(last).id
            return tool_call_response("", "read_result", "c2", given)
        return text_response(last.text())

    reader = Agent("a", model=FunctionModel(answer), tools=[fetch])
    async with Runtime([reader], store=store) as runtime:
        assert says in (await runtime.run("a", "go", thread="t")).response


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda path: path.unlink(), "does not exist: it was deleted"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "is damaged"),
    ],
)
async def test_a_result_whose_file_was_harmed_is_told_to_the_model(
    tmp_path: Path, harm: Callable[[Path], object], says: str
) -> None:
    """By hand, say; the run goes on."""

    def fetch() -> str:
        """Fetch it."""
        return "x" * 100_000

    def answer(request: InferenceRequest) -> Any:
        last = request.messages[-1]
        if last.role is Role.USER:
            return tool_call_response("", "fetch", "c1", {})
        if last.tool_call_id == "c1":
            id = whole_of(last).id
            harm(tmp_path / "a.db-blobs" / "_" / id[:2] / id)
            return tool_call_response("", "read_result", "c2", {"id": id})
        return text_response(last.text())

    reader = Agent("a", model=FunctionModel(answer), tools=[fetch])
    async with Runtime([reader], store=f"sqlite:///{tmp_path}/a.db") as runtime:
        assert says in (await runtime.run("a", "go")).response


async def test_a_model_does_not_read_the_results_of_other_threads(store: Watched) -> None:

    wanted: list[str] = []

    def fetch(of: str) -> str:
        """Fetch it."""
        return of * 100_000

    def answer(request: Any) -> Any:
        last = request.messages[-1]
        if last.role is Role.USER:
            return tool_call_response("", "fetch", "c1", {"of": last.text()})
        if last.tool_call_id == "c1" and wanted:
            return tool_call_response("", "read_result", "c2", {"id": wanted[0]})
        if last.tool_call_id == "c1":
            wanted.append(whole_of(last).id)
        return text_response(last.text())

    reader = Agent("a", model=FunctionModel(answer), tools=[fetch])
    async with Runtime([reader], store=store) as runtime:
        await runtime.run("a", "x", thread="mine")
        other = await runtime.run("a", "y", thread="other")

    assert "no result with the id" in other.response


async def test_an_agents_own_tool_of_that_name_goes_before(store: Watched) -> None:
    def fetch() -> str:
        """Fetch it."""
        return "x" * 100_000

    def read_result() -> str:
        """The user's own."""
        return "mine"

    model = ScriptedModel(
        [
            tool_call_response("", "fetch", "c1", {}),
            tool_call_response("", "read_result", "c2", {}),
            "done",
        ]
    )
    own = Agent("a", model=model, tools=[fetch, read_result])
    async with Runtime([own], store=store) as runtime:
        await runtime.run("a", "go", thread="t")

    assert model.requests[2].messages[-1].text() == "mine"


async def test_parallel_results_are_each_kept(store: Watched) -> None:
    def fetch(of: str) -> str:
        """Fetch it."""
        return of * 100_000

    calls = [("fetch", f"c{letter}", {"of": letter}) for letter in "abc"]
    model = ScriptedModel([tool_calls_response("", *calls), "done"])
    async with Runtime([Agent("a", model=model, tools=[fetch])], store=store) as runtime:
        await runtime.run("a", "go", thread="t")
        kept = [whole_of(m) for m in await runtime.messages("t") if m.role is Role.TOOL]
        contents = [(await read_bytes(blobs_of(runtime), "", blob.id))[1] for blob in kept]

    assert contents == [letter.encode() * 100_000 for letter in "abc"]


# -- results that come later ------------------------------------------------------------------


async def test_a_background_task_may_have_a_large_result(store: Watched) -> None:
    """Its news is shortened like a tool's result, and no commit gets large."""
    text = text_of(3 * MIB)

    @tool(effect="idempotent")
    async def bake() -> str:
        """Bake something."""
        return text

    def answer(request: InferenceRequest) -> Any:
        news = [m for m in request.messages if "background-task-event" in m.text()]
        if not any(message.tool_calls for message in request.messages):
            return tool_call_response("", "bake", "c1", {})
        if not news:
            return text_response("it is in the oven")
        assert "read_result" in [each.id for each in request.tools]
        return text_response(f"ready: {len(news[0].text())}")

    baker = Agent("a", model=FunctionModel(answer), background=[bake])
    async with Runtime([baker], store=store) as runtime:
        await runtime.run("a", "bake", thread="t")
        ended = await runtime.wait("t", timeout=60)
        (news,) = [m for m in await runtime.messages("t") if "background-task-event" in m.text()]
        _, content = await read_bytes(blobs_of(runtime), "", whole_of(news).id)
        (task,) = await runtime.tasks("t")

    assert ended.response == f"ready: {len(news.text())}"
    assert len(news.text()) < 5_000
    assert dumps(text) in content
    assert task.result == text
    rows = [msgspec.structs.replace(c, run=None, sends=()) for c in store.commits]
    assert max(len(dumps(row)) for row in rows) < 32 * 1024


async def test_much_news_at_once_is_shortened_though_each_is_short(store: Watched) -> None:
    @tool(effect="idempotent")
    async def bake(n: int) -> str:
        """Bake something."""
        return f"{n}" * 60_000

    def answer(request: InferenceRequest) -> Any:
        news = [m for m in request.messages if "background-task-event" in m.text()]
        if not any(message.tool_calls for message in request.messages):
            calls = [("bake", f"c{n}", {"n": n}) for n in range(20)]
            return tool_calls_response("", *calls)
        return text_response("ready" if len(news) == 20 else "wait")

    baker = Agent("a", model=FunctionModel(answer), background=[bake])
    async with Runtime([baker], store=store) as runtime:
        await runtime.run("a", "bake", thread="t")
        ended = await runtime.wait("t", timeout=60)

    assert ended.response == "ready"


# -- how long ---------------------------------------------------------------------------------


async def test_a_deleted_threads_blobs_go_with_the_next_sweep_and_a_forks_do_not(
    store: Watched,
) -> None:
    """06/SV-14."""
    large, _ = agent("x" * 100_000)
    async with Runtime([large], store=store) as runtime:
        await runtime.run("a", "fetch", thread="t")
        id = whole_of(tool_message(await runtime.messages("t"))).id
        await runtime.fork("t", new="fork")
        await runtime.delete_thread("t")
        await blobs_of(runtime).delete_unreferenced(LATER)
        assert (await read_bytes(blobs_of(runtime), "", id))[0].size == 100_000

        await runtime.delete_thread("fork")
        assert (await read_bytes(blobs_of(runtime), "", id))[0].size == 100_000
        await blobs_of(runtime).delete_unreferenced(LATER)
        with pytest.raises(BlobNotFound):
            await read_bytes(blobs_of(runtime), "", id)


async def test_pruning_sweeps_blobs_that_are_a_day_old(tmp_path: Path) -> None:

    clock = FakeClock()
    large, _ = agent("x" * 100_000)
    store = SqliteStore(tmp_path / "a.db", clock=clock)
    async with Runtime([large], store=store, clock=clock) as runtime:
        await put_bytes(blobs_of(runtime), "", b"left by a process that was killed", "text/plain")
        await runtime.run("a", "fetch", thread="t")

        assert (await runtime.prune(older_than=10 * DAY)).blobs == 0
        clock.advance(2 * DAY)
        freed = await runtime.prune(older_than=10 * DAY)
        assert (freed.threads, freed.blobs, freed.bytes) == (0, 1, 33)
        freed = await runtime.prune(older_than=DAY)
        assert (freed.threads, freed.blobs) == (1, 1)
    await store.close()


# -- when blobs fail --------------------------------------------------------------------------


async def test_a_result_that_cannot_be_kept_is_cut_and_the_model_is_told(store: Watched) -> None:
    """A full disk: what the tool did stays on record, and the run goes on."""

    class Full:
        async def put(self, *_: Any) -> Any:
            raise StoreUnavailable("no space is left")

    large, model = agent("x" * 100_000)
    async with Runtime([large], store=store, blobs=Full()) as runtime:  # type: ignore[arg-type]
        result = await runtime.run("a", "fetch", thread="t")
        message = tool_message(await runtime.messages("t"))

    assert result.response == "done"
    assert message.text().endswith(
        "[the first 4096 of 100000 bytes; the rest could not be kept and is lost]"
    )
    assert message.content == (Text(text=message.text()),)
    assert [tool.id for tool in model.requests[1].tools] == ["fetch"]


# -- replays ----------------------------------------------------------------------------------


async def test_a_run_that_read_a_large_result_can_be_replayed(tmp_path: Path) -> None:
    """With what is known of its calls, and with the agent itself."""

    def fetch() -> str:
        """Fetch it."""
        return "x" * 100_000

    def answer(request: InferenceRequest) -> Any:
        last = request.messages[-1]
        if last.role is Role.USER:
            return tool_call_response("", "fetch", "c1", {})
        if last.tool_call_id == "c1":
            id = last.text().rpartition("id '")[2].partition("'")[0]
            return tool_call_response("", "read_result", "c2", {"id": id, "offset": 99_998})
        return text_response(last.text())

    model = FunctionModel(answer)
    reader = Agent("a", model=model, tools=[fetch])
    async with Runtime([reader], store=f"sqlite:///{tmp_path}/a.db") as runtime:
        result = await runtime.run("a", "go")
        recording = await read_recording(runtime.store, result.run_id)

    assert first_difference(recording, await replay(recording.scene(), model)) is None
    assert first_difference(recording, await replay(recording.scene(), model, reader)) is None
