"""What a model was asked can be read back, exactly (07 §6.1).

That the request of *every* story equals what its model received is checked by the fixture
`request_check` (07/CO-12), which watches all tests; here is what the doors themselves promise.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
from front_kit import Piece

from awaken import Agent, Message, Runtime, tool
from awaken.codec import Json, dumps
from awaken.core.event import TextDelta
from awaken.core.inference import ContextWindowPolicy, InferenceOverride
from awaken.core.llm import InferenceRequest, Overloaded, ProviderError, RateLimited
from awaken.core.message import Base64Source, Image, Text
from awaken.core.request_manifest import UnloggedMessage
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.tool import ToolDescriptor
from awaken.errors import BlobNotFound, NoPreview, NotFound, RequestNotKept
from awaken.stores import MemoryStore, SqliteStore, Store
from awaken.testing import FakeClock, ScriptedModel, tool_call_response, tool_calls_response
from request_check import RequestCheck

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = (
        MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "awaken.db")
    )
    await opened.open()
    yield opened
    await opened.close()


@tool
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


async def answers(runtime: Runtime, thread: str = "t") -> list[str]:
    """The ids of the thread's answers, in order."""
    log = await runtime.messages(thread)
    return [message.id or "" for message in log if message.role == "assistant"]


def plain(request: InferenceRequest) -> InferenceRequest:
    return msgspec.structs.replace(request, messages=list(request.messages))


async def test_the_request_of_each_step_is_what_the_model_received(store: Store) -> None:
    """07/CO-12: over two runs, with tools, a prompt and parameters."""
    model = ScriptedModel(
        [tool_calls_response("", ("look", "1", {"n": 1}), ("look", "2", {"n": 2})), "two", "three"]
    )
    agent = Agent("a", system_prompt="Be brief.", model=model, tools=[look])
    async with Runtime([agent], store=store) as runtime:
        await runtime.run("a", "go", thread="t", settings=InferenceOverride(temperature=0.5))
        await runtime.run("a", "and again", thread="t")

        asked = [await runtime.load_request("t", id) for id in await answers(runtime)]

    assert asked == [plain(request) for request in model.requests]
    assert asked[0].system == (Text(text="Be brief."),)
    assert asked[0].overrides is not None
    assert asked[0].overrides.temperature == 0.5
    assert [len(request.messages) for request in asked] == [1, 4, 6]


class Written(MemoryStore):
    """A store that counts the bytes of the manifests it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.texts = 0

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.sizes += [len(dumps(manifest)) for manifest in commit.requests]
        self.texts += len(commit.texts)
        return await super().commit(commit)


async def test_a_step_takes_few_bytes_however_long_the_thread_is() -> None:
    """07 §6.1: at most 600 bytes a step; prompts and tools are written once a run."""
    steps = [tool_call_response("", "look", str(n), {"n": n}) for n in range(40)]
    agent = Agent(
        "a",
        system_prompt="Be brief. " * 100,
        model=ScriptedModel([*steps, "done"]),
        tools=[look],
        max_rounds=50,
    )
    store = Written()
    async with Runtime([agent], store=store) as runtime:
        await runtime.run("a", "go")

    assert len(store.sizes) == 41
    assert max(store.sizes) <= 600
    assert max(store.sizes[1:]) <= 150
    assert store.texts == 2


async def test_messages_that_are_not_in_the_log_are_known(store: Store) -> None:
    """07/CO-12: a plugin may add, change and leave out messages."""

    def changed(messages: Sequence[Message], _: Sequence[ToolDescriptor]) -> Sequence[Message]:
        first, *others = messages
        loud = msgspec.structs.replace(first, content=(Text(text=first.text().upper()),))
        return [Message.system("mind the gap", id="own"), loud, *others]

    plugin = Piece("loud", lambda registrar: registrar.transform(changed))
    model = ScriptedModel(["one", "two"])
    async with Runtime([Agent("a", model=model, plugins=[plugin])], store=store) as runtime:
        await runtime.run("a", "go", thread="t")
        await runtime.run("a", "on", thread="t")
        last = (await answers(runtime))[-1]

        manifest = await runtime.load_manifest("t", last)

        own, loud, rest = manifest.shown
        assert isinstance(own, UnloggedMessage)
        assert isinstance(loud, UnloggedMessage)
        assert (own.id, own.seq, loud.id, loud.seq) == ("own", None, None, 1)
        assert rest == (2, 3)
        assert await runtime.load_request("t", last) == plain(model.requests[1])


async def test_failed_attempts_and_the_model_that_answered_are_known() -> None:
    """07 §6.1: a retry, then another model of the pool."""
    one, other = (
        ScriptedModel([ProviderError("broken"), RateLimited("full")]),
        ScriptedModel(["hi"]),
    )
    agent = Agent("a", model=["x:one", "x:other"])
    models = {"x:one": one, "x:other": other}
    async with Runtime([agent], models=models, clock=FakeClock(auto=True)) as runtime:
        await runtime.run("a", "go", thread="t")
        (answer,) = await answers(runtime)

        manifest = await runtime.load_manifest("t", answer)

        assert (await runtime.load_request("t", answer)).upstream_model == "other"
    assert manifest.answered_by == "other"
    failed = [(attempt.model, attempt.error) for attempt in manifest.attempts]
    assert failed == [("one", "ProviderError"), ("one", "RateLimited")]
    assert manifest.first_ms == 0


async def test_an_answer_that_broke_off_was_asked_to_go_on(store: Store) -> None:
    """07/CO-12: the model that finished the answer got what had arrived of it."""
    model = ScriptedModel([[TextDelta(delta="half "), Overloaded("busy")], "and half"])
    agent, clock = Agent("a", model=model), FakeClock(auto=True)
    async with Runtime([agent], store=store, clock=clock) as runtime:
        await runtime.run("a", "go", thread="t")
        (answer,) = await answers(runtime)

        asked = await runtime.load_request("t", answer)

    assert asked == plain(model.requests[1])
    assert [message.text() for message in asked.messages][:2] == ["go", "half "]


async def test_a_policy_shortens_what_is_shown(store: Store) -> None:
    """07/CO-12: earlier rounds are left out, a long result is cut."""

    @tool
    async def read(n: int) -> str:
        """Read."""
        return f"{n} " * 6000

    steps = [tool_call_response("", "read", str(n), {"n": n}) for n in range(6)]
    model = ScriptedModel([*steps, "done"])
    policy = ContextWindowPolicy.of(8_000, min_recent_messages=2)
    agent = Agent("a", system_prompt="Be brief.", model=model, tools=[read], context_policy=policy)
    async with Runtime([agent], store=store) as runtime:
        await runtime.run("a", "go", thread="t")

        asked = [await runtime.load_request("t", id) for id in await answers(runtime)]

    assert asked == [plain(request) for request in model.requests]
    assert len(asked[-1].messages) < 12


async def test_large_news_is_shown_as_it_is_logged(store: Store) -> None:
    """07/CO-12: also if it comes while an approved call runs, just before a model is asked."""

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        await runtime.send("t", Message.internal_user("news " * 40_000))
        return "paid"

    model = ScriptedModel([tool_call_response("", "pay", "1", {}), "done"])
    async with Runtime([Agent("a", model=model, tools=[pay])], store=store) as runtime:
        asking = await runtime.run("a", "go", thread="t")
        await runtime.run(thread="t", answers={asking.tickets[0]: True})
        last = (await answers(runtime))[-1]

        assert await runtime.load_request("t", last) == plain(model.requests[1])
    assert len(model.requests[1].messages[-1].text()) < 5_000


async def test_media_in_blobs_are_part_of_the_request(store: Store) -> None:
    """06 §2.10: they are loaded again; if one is gone, that is an error."""
    data = b64encode(bytes(range(256)) * 400).decode()
    picture = Image(source=Base64Source(media_type="image/png", data=data))
    model = ScriptedModel(["a cat", "still a cat"])
    async with Runtime([Agent("a", model=model)], store=store) as runtime:
        await runtime.run("a", Message.user_with_content((picture,)), thread="t")
        await runtime.run("a", "sure?", thread="t")
        ids = await answers(runtime)

        asked = [await runtime.load_request("t", id) for id in ids]

        assert asked == [plain(request) for request in model.requests]
        await runtime.fork("t", new="u")
        assert await runtime.load_request("u", ids[1]) == asked[1]
        for thread in ("t", "u"):
            await runtime.delete_thread(thread)
        with pytest.raises(NotFound):
            await runtime.load_request("t", ids[0])


async def test_a_request_whose_picture_is_gone_is_refused(store: Store) -> None:
    data = b64encode(bytes(range(256)) * 400).decode()
    picture = Image(source=Base64Source(media_type="image/png", data=data))
    async with Runtime([Agent("a", model=ScriptedModel(["a cat"]))], store=store) as runtime:
        await runtime.run("a", Message.user_with_content((picture,)), thread="t")
        (answer,) = await answers(runtime)
    async with Runtime([], store=store, blobs=MemoryStore().blobs) as elsewhere:
        with pytest.raises(BlobNotFound):
            await elsewhere.load_request("t", answer)


async def test_nothing_is_kept_if_that_is_turned_off(store: Store) -> None:
    """07/CO-13: reading says so."""
    agent = Agent("a", model=ScriptedModel(["one"]))
    async with Runtime([agent], store=store, keep_requests=False) as runtime:
        await runtime.run("a", "go", thread="t")
        (answer,) = await answers(runtime)

        with pytest.raises(RequestNotKept, match="keep_requests=False"):
            await runtime.load_request("t", answer)
        with pytest.raises(NotFound, match="message 'x'"):
            await runtime.load_manifest("t", "x")


class Number(msgspec.Struct):
    """A number."""

    n: int


class Shown(ScriptedModel):
    """A model with a preview."""

    def preview(self, request: InferenceRequest) -> Json:
        return {"model": request.upstream_model, "tools": [tool.id for tool in request.tools]}


async def test_a_kept_request_can_be_seen_as_it_goes_to_the_provider() -> None:
    """07 §6.1: through retries, pools and output tools; a model without a preview says so."""
    shown = Agent("a", model=["x:one", "x:two"], tools=[look], output=Number)
    plain_one = Agent("b", model=ScriptedModel([]))
    models = {"x:one": Shown([RateLimited("full")]), "x:two": Shown(['{"n": 1}'])}
    async with Runtime([shown, plain_one], models=models) as runtime:
        await runtime.run("a", "go", thread="t")
        (answer,) = await answers(runtime)
        request = await runtime.load_request("t", answer)

        assert runtime.preview("a", request) == {"model": "two", "tools": ["look", "final_answer"]}
        with pytest.raises(NoPreview, match="'scripted' cannot show what it sends"):
            runtime.preview(plain_one, request)


class Liar(MemoryStore):
    """A store that keeps other requests than it was given."""

    async def commit(self, commit: ThreadCommit) -> Committed:
        wrong = [msgspec.structs.replace(kept, shown=()) for kept in commit.requests]
        return await super().commit(msgspec.structs.replace(commit, requests=tuple(wrong)))


async def test_the_check_of_all_stories_finds_a_wrong_request(request_check: RequestCheck) -> None:
    async with Runtime([Agent("a", model=ScriptedModel(["one"]))], store=Liar()) as runtime:
        await runtime.run("a", "go")

    (wrong,) = request_check.wrong
    assert "built:" in wrong
    request_check.wrong.clear()
