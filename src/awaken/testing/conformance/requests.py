"""Checks of the requests that are kept with their answers, and of their texts (07 §6.1)."""

from __future__ import annotations

import hashlib
from typing import Any

from awaken.codec import dumps
from awaken.core.inference import InferenceOverride, OutputFormat
from awaken.core.llm import InferenceRequest, RoutingKey
from awaken.core.message import Message, Text
from awaken.core.request_manifest import (
    FailedAttempt,
    RequestManifest,
    RequestSettings,
    StoredText,
    UnloggedMessage,
)
from awaken.core.store.store import Store
from awaken.core.tool import ToolDescriptor
from awaken.errors import NotFound, RequestNotKept, TextGone, VersionConflict
from awaken.testing.conformance.helpers import StoreCheck, Suite, event, expect_error, says, write

check = Suite[StoreCheck]()

TOOLS = (ToolDescriptor(id="pay", name="pay", description="Pay.", parameters={"type": "object"}),)
OUTPUT = OutputFormat(name="paid", schema={"type": "object"})


def text(value: object) -> StoredText:
    body = dumps(value)
    return StoredText(hashlib.sha256(body).hexdigest()[:32], body)


PROMPT, OTHER = text((Text(text="Be brief."),)), text((Text(text="Be long."),))
HINT = text(Message(role=says("x")[0].role, content=(Text(text="hint"),)))


def settings(**changes: Any) -> RequestSettings:
    fields = {"thread_id": "t", "run_id": "r", "model": "m", "system": PROMPT.digest}
    return RequestSettings(**(fields | changes))


async def commit_answer(
    store: Store, thread_id: str, name: str, texts: tuple[StoredText, ...] = (), **manifest: Any
) -> None:
    """Commit a question `q-<name>`, its answer `<name>`, and the request that led to it."""
    said = (*says(f"q-{name}"), Message.assistant(f"answer {name}", id=name))
    kept = RequestManifest(message_id=name, **manifest)
    await write(store, thread_id, messages=said, requests=(kept,), texts=texts, events=(event(),))


async def load_request_texts(store: Store, thread_id: str, name: str) -> list[str]:
    request = await store.load_request(thread_id, name)
    return [message.text() for message in request.messages]


@check
async def a_request_is_built_again(store: Store) -> None:
    """07 §6.1: from the log, from texts, and from what the manifest says itself."""
    tools, output = text(TOOLS), text(OUTPUT)
    whole = settings(tools=tools.digest, output=output.digest, prompt_cache=True)
    attempt = FailedAttempt(model="m", error="Overloaded", ms=20)
    await commit_answer(
        store,
        "t",
        "a",
        (PROMPT, tools, output, HINT),
        shown=(UnloggedMessage(text=HINT.digest, id="hint-1"), (1, 1)),
        settings=whole,
        overrides=InferenceOverride(temperature=0.5),
        answered_by="m-2",
        attempts=(attempt,),
        first_ms=7,
    )

    built = await store.load_request("t", "a")

    assert built == InferenceRequest(
        upstream_model="m-2",
        messages=[Message.user("hint", id="hint-1"), *says("q-a")],
        tools=TOOLS,
        system=(Text(text="Be brief."),),
        overrides=InferenceOverride(temperature=0.5),
        enable_prompt_cache=True,
        output=OUTPUT,
        routing_key=RoutingKey(thread_id="t", run_id="r"),
    )
    manifest = await store.load_manifest("t", "a")
    assert (manifest.attempts, manifest.first_ms, manifest.settings) == ((attempt,), 7, whole)


@check
async def a_manifest_may_be_like_an_earlier_one(store: Store) -> None:
    """07 §6.1: through several steps; each says how much of the earlier one it has."""
    hint = UnloggedMessage(text=HINT.digest, id="hint-1")
    await commit_answer(store, "t", "a", (PROMPT, HINT), shown=(hint, (1, 1)), settings=settings())
    await commit_answer(store, "t", "b", like=2, same=1, shown=((1, 3),))
    await commit_answer(store, "t", "c", like=4, same=2, shown=((5, 5),))
    await commit_answer(store, "t", "d", like=4, settings=settings(model="n"), shown=((7, 7),))

    assert await load_request_texts(store, "t", "b") == ["hint", "q-a", "answer a", "q-b"]
    assert await load_request_texts(store, "t", "c") == ["hint", "q-a", "answer a", "q-b", "q-c"]
    last = await store.load_manifest("t", "d")
    assert (last.like, last.same, last.shown) == (None, 0, ((7, 7),))
    assert last.settings == settings(model="n")


@check
async def a_changed_message_has_the_id_of_the_one_it_replaces(store: Store) -> None:
    replaced = UnloggedMessage(text=HINT.digest, seq=1)
    await commit_answer(store, "t", "a", (PROMPT, HINT), shown=(replaced,), settings=settings())

    built = await store.load_request("t", "a")

    assert list(built.messages) == [Message.user("hint", id="m-q-a")]


@check
async def what_was_not_kept_is_said(store: Store) -> None:
    """07/CO-13: each in an error of its own."""
    await commit_answer(store, "t", "a", shown=((1, 1),), settings=settings())

    assert (await expect_error(NotFound, store.load_request("u", "a"))).kind == "thread"
    assert (await expect_error(NotFound, store.load_request("t", "x"))).kind == "message"
    assert (await expect_error(NotFound, store.load_manifest("t", '"'))).kind == "message"
    not_kept = await expect_error(RequestNotKept, store.load_request("t", "m-q-a"))
    assert (not_kept.thread_id, not_kept.message_id) == ("t", "m-q-a")
    await expect_error(RequestNotKept, store.load_manifest("t", "m-q-a"))
    gone = await expect_error(TextGone, store.load_request("t", "a"))
    assert (gone.thread_id, gone.digest) == ("t", PROMPT.digest)
    assert (await store.load_manifest("t", "a")).settings == settings()


@check
async def a_text_stays_as_long_as_a_thread_uses_it(store: Store) -> None:
    """07 §6.1: it is kept once, and goes with the last thread."""
    for thread in ("t", "u"):
        await commit_answer(store, thread, "a", (PROMPT,), shown=((1, 1),), settings=settings())
    await commit_answer(store, "t", "b", (OTHER,), settings=settings(system=OTHER.digest))

    await store.delete_thread("t", at_ms=2)

    assert (await store.load_request("u", "a")).system == (Text(text="Be brief."),)
    await commit_answer(store, "u", "b", settings=settings(system=OTHER.digest))
    await expect_error(TextGone, store.load_request("u", "b"))
    await store.prune(before_ms=1_000)
    await commit_answer(store, "v", "a", settings=settings())
    await expect_error(TextGone, store.load_request("v", "a"))


@check
async def a_fork_has_the_requests_and_texts_of_its_commits(store: Store) -> None:
    """07 §6.1: also when its origin is deleted."""
    await commit_answer(store, "t", "a", (PROMPT,), shown=((1, 1),), settings=settings())
    await commit_answer(store, "t", "b", (OTHER,), settings=settings(system=OTHER.digest))
    await store.fork("t", "early", at=1, at_ms=2)
    await store.fork("t", "late", at_ms=2)
    await store.delete_thread("t", at_ms=3)

    assert await load_request_texts(store, "early", "a") == ["q-a"]
    assert (await store.load_request("late", "b")).system == (Text(text="Be long."),)
    assert (await expect_error(NotFound, store.load_request("early", "b"))).kind == "message"
    await store.delete_thread("late", at_ms=4)
    await commit_answer(store, "early", "c", settings=settings(system=OTHER.digest))
    await expect_error(TextGone, store.load_request("early", "c"))


@check
async def a_refused_commit_keeps_no_text(store: Store) -> None:
    await commit_answer(store, "t", "a", settings=settings())

    await expect_error(VersionConflict, write(store, "t", expected_length=7, texts=(PROMPT,)))

    await expect_error(TextGone, store.load_request("t", "a"))
