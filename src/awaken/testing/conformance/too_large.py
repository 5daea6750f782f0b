"""Checks of commits that are too large for a row (06 §2.10)."""

from __future__ import annotations

from typing import Any

from awaken.core.event import ToolCallReady
from awaken.core.store.commits import MAX_COMMIT
from awaken.errors import CommitTooLarge
from awaken.testing.conformance.helpers import (
    OpenStore,
    SharedStoreCheck,
    Suite,
    event,
    expect_error_without_change,
    raw,
    record,
    says,
    write,
)

check = Suite[SharedStoreCheck]()

LARGE = "x" * MAX_COMMIT


@check
async def a_commit_that_is_too_large_is_refused_by_name(open_store: OpenStore) -> None:
    """06 §2.10: nothing of it is written, and the thread can be written as before."""
    store = await open_store()
    await write(store, messages=says("before"))
    ready = event(ToolCallReady(id="c", name="tool", arguments={"text": LARGE}))
    parts: dict[str, dict[str, Any]] = {
        "message 'm-": {"messages": says("small", LARGE)},
        "state key 'notes'": {"thread_state": raw(notes=LARGE)},
        "state key 'sums'": {"run": record("r"), "run_state": raw(sums=LARGE, few=1)},
        "event 'tool_call_ready'": {"events": (ready,)},
    }

    for name, delta in parts.items():
        error = await expect_error_without_change(store, CommitTooLarge, write(store, **delta))
        assert error.parts[0][0].startswith(name)
        assert error.size > error.limit == MAX_COMMIT
        assert name in str(error)

    await write(store, messages=says("after"))
    await store.close()


@check
async def a_commit_may_nearly_fill_a_row(open_store: OpenStore) -> None:
    store = await open_store()
    large = says("x" * (MAX_COMMIT // 2 - 500))

    await write(store, messages=large)

    assert list(await store.load_messages("t")) == list(large)
    await store.close()
