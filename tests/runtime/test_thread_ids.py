"""The ids that callers give threads: which are refused, and which may be used all the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from awaken import Agent, Message, Runtime
from awaken.errors import AlreadyExists, InvalidId
from awaken.runtime import Principal
from awaken.stores import ThreadPatch
from awaken.testing import ScriptedModel
from awaken.worker import RunRequest

pytestmark = pytest.mark.anyio

BAD = ["", " ", "a/b", "a~b", "a\0b", "x" * 10_240, "two words"]
Ask = Callable[[Runtime, str], Awaitable[object]]


@pytest.fixture(params=["memory:", "sqlite:///{}/awaken.db"], ids=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def agent() -> Agent:
    return Agent("a", model=ScriptedModel(["hello"] * 9))


async def _run(runtime: Runtime, thread: str) -> None:
    await runtime.run("a", "hi", thread=thread)


async def _run_with_approver(runtime: Runtime, thread: str) -> None:
    await runtime.run("a", "hi", thread=thread, on_approval=lambda ticket: True)


async def _stream(runtime: Runtime, thread: str) -> None:
    async with runtime.stream("a", "hi", thread=thread) as events:
        async for _ in events:
            pass


async def _fork(runtime: Runtime, thread: str) -> None:
    await runtime.fork("talk", new=thread)


@pytest.mark.parametrize("id", BAD, ids=lambda id: repr(id[:9]))
@pytest.mark.parametrize("ask", [_run, _run_with_approver, _stream, _fork])
async def test_a_bad_id_for_a_new_thread_is_refused_and_nothing_is_written(
    address: str, ask: Ask, id: str
) -> None:
    async with Runtime([agent()], store=address) as runtime:
        await runtime.run("a", "hi", thread="talk")
        with pytest.raises(InvalidId, match="1 to 200 letters, digits and characters"):
            await ask(runtime, id)
        assert [thread.id for thread in await runtime.list_threads()] == ["talk"]


@pytest.mark.parametrize("id", ["a", "A.b_c:d@e=f+g-1", "x" * 200])
async def test_an_allowed_id_is_used_as_it_is(address: str, id: str) -> None:
    async with Runtime([agent()], store=address) as runtime:
        result = await runtime.run("a", "hi", thread=id)
        assert result.thread_id == id


@pytest.mark.parametrize("id", ["acme/talk", "old~one", "two words", "acme/talk~m1:0"])
async def test_a_thread_that_exists_stays_usable_under_its_id(address: str, id: str) -> None:
    """Earlier versions took any id; and servers name threads with their scope."""
    async with Runtime([agent()], store=address) as runtime:
        first = RunRequest(thread_id=id, agent_id="a", messages=(Message.user("hi"),))
        await runtime.engine.run(first)
        await runtime.run("a", "again", thread=id)
        said = [message.text() for message in await runtime.messages(id)]
    assert said == ["hi", "hello", "again", "hello"]


async def test_a_principal_names_threads_of_its_own_scope_only(address: str) -> None:
    """06 §2.8: a server composes the ids, and they are checked once more."""
    acme = Principal(id="key-1", scope="acme")
    async with Runtime([agent()], store=address) as runtime:
        taken = await runtime.submit("a", "hi", thread="acme/talk", principal=acme)
        made = await runtime.submit("a", "hi", principal=acme)
        fork = await runtime.fork("acme/talk", new="copy", principal=acme)
        for bad in ("talk", "other/talk", "acme/", "acme/a/b", "acme/a~b"):
            with pytest.raises(InvalidId):
                await runtime.submit("a", "hi", thread=bad, principal=acme)
        with pytest.raises(InvalidId):
            await runtime.fork("acme/talk", new="acme/copy", principal=acme)
        kept = {thread.id: thread.scope for thread in await runtime.list_threads()}
    assert kept == dict.fromkeys((taken.thread_id, made.thread_id, fork.id), "acme")
    assert (taken.thread_id, fork.id) == ("acme/talk", "acme/copy")


async def test_an_empty_thread_is_begun_once(address: str) -> None:
    acme = Principal(id="key-1", scope="acme")
    async with Runtime([agent()], store=address) as runtime:
        thread = await runtime.create_thread("talk", ThreadPatch(title="Tea"), principal=acme)
        with pytest.raises(AlreadyExists):
            await runtime.create_thread("talk", principal=acme)
        named = await runtime.create_thread()
        assert await runtime.messages(thread.id) == []
    assert (thread.id, thread.scope, thread.metadata.title) == ("acme/talk", "acme", "Tea")
    assert thread.metadata.created_by == "key-1"
    assert (named.scope, named.metadata.created_by) == ("", None)
