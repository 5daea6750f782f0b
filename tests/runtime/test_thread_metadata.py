"""What is said about runs and threads at the front door: user, labels, title."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from front_kit import pay

from awaken import Agent, Runtime
from awaken.errors import ConfigError, VersionConflict
from awaken.stores import RunQuery, ThreadMetadata, ThreadPatch, ThreadQuery
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory:", "sqlite:///{}/awaken.db"], ids=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def payer() -> Agent:
    call = tool_call_response("", "pay", "c1", {"n": 5})
    return Agent("payer", model=ScriptedModel([call, "paid", "again"]), tools=[pay])


async def test_user_and_labels_are_kept_with_the_run_and_with_the_thread_it_creates(
    address: str,
) -> None:
    """07 §6.5: a run keeps them over a pause, and a later run has its own."""
    async with Runtime([payer()], store=address) as runtime:
        first = await runtime.run("payer", "pay", thread="t", user="ann", labels={"env": "prod"})
        (ticket,) = first.tickets
        await runtime.run(thread="t", answers={ticket: True}, user="eve")
        async with runtime.stream("payer", "more", thread="t", user="bob") as events:
            async for _ in events:
                pass
        later, earlier = await runtime.list_runs(RunQuery(thread_id="t"))
        (thread,) = await runtime.list_threads(ThreadQuery(user="ann", label="env=prod"))
    assert earlier.request is not None
    assert (earlier.request.user, earlier.request.labels) == ("ann", {"env": "prod"})
    assert later.request is not None
    assert (later.request.user, later.request.labels) == ("bob", {})
    assert thread.metadata == ThreadMetadata(user="ann", labels={"env": "prod"})


async def test_a_title_is_changed_once_of_two_changes_made_from_one_reading(address: str) -> None:
    async with Runtime([payer()], store=address) as runtime:
        await runtime.run("payer", "hi", thread="t")
        thread = await runtime.update_thread("t", ThreadPatch(title="Bills"), expected_revision=0)
        assert thread.metadata.title == "Bills"
        with pytest.raises(VersionConflict, match="expected 0"):
            await runtime.update_thread("t", ThreadPatch(title="Other"), expected_revision=0)


MANY = {f"label {n}": "x" * 190 for n in range(400)}
"""Labels of more than 64 KiB."""


@pytest.mark.parametrize("said", [{"labels": MANY}, {"user": "u" * 70_000}], ids=["labels", "user"])
async def test_a_run_says_no_more_of_its_thread_than_a_thread_may_have(
    address: str, said: dict[str, Any]
) -> None:
    """Every list of threads has the labels, and every run of the thread."""
    (name,) = said
    async with Runtime([payer()], store=address) as runtime:
        for ask in (runtime.run, runtime.submit):
            with pytest.raises(ConfigError, match=rf"^{name}: .*more than 65536"):
                await ask("payer", "pay", thread="t", **said)
        with pytest.raises(ConfigError, match=rf"^{name}: .*more than 65536"):
            async with runtime.stream("payer", "pay", thread="t", **said):
                pass
        assert (await runtime.list_threads()).items == ()
        half = dict(list(MANY.items())[:200])
        await runtime.run("payer", "pay", thread="t", user="ann", labels=half)
        (thread,) = await runtime.list_threads()
    assert thread.metadata.labels == half


@pytest.mark.parametrize("labels", [{"": "x"}, {"a=b": "x"}, {"a": "x" * 201}, {"a": 1}])
async def test_labels_that_cannot_be_kept_are_refused_before_anything_is_written(
    labels: dict[str, str],
) -> None:
    async with Runtime([payer()]) as runtime:
        with pytest.raises(ConfigError, match="label"):
            await runtime.run("payer", "hi", labels=labels)
        assert not (await runtime.list_threads()).items
    with pytest.raises(ConfigError, match="label"):
        ThreadPatch(labels={**labels})
