"""Media that are too large for the log (06 §2.10)."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, Message, Runtime
from awaken.core.blobs import BlobStore, put_bytes, read_bytes
from awaken.core.message import (
    Base64Source,
    BlobSource,
    Document,
    Image,
    Text,
    ToolResultBlock,
    UrlSource,
)
from awaken.errors import BlobNotFound, StorageError, StoreUnavailable
from awaken.stores import MemoryStore, SqliteStore, Store
from awaken.testing import ScriptedModel

pytestmark = pytest.mark.anyio

CONTENT = os.urandom(100_000)
PICTURE = Image(source=Base64Source(media_type="image/png", data=b64encode(CONTENT).decode()))
SMALL = Image(source=Base64Source(media_type="image/png", data=b64encode(b"small").decode()))
LATER = 2**50


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = (
        MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "awaken.db")
    )
    await opened.open()
    yield opened
    await opened.close()


def agent(*answers: str) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(answers)
    return Agent("a", model=model), model


def shows(*blocks: Any) -> Message:
    return Message.user_with_content((Text(text="look"), *blocks))


def blobs_of(runtime: Runtime) -> BlobStore:
    assert runtime.blobs is not None
    return runtime.blobs


def source_in(message: Message) -> BlobSource:
    (picture,) = [block for block in message.content if isinstance(block, Image)]
    assert isinstance(picture.source, BlobSource)
    return picture.source


async def test_a_large_picture_goes_to_a_blob_and_comes_back_for_every_request(
    store: Store,
) -> None:
    seer, model = agent("a cat", "still a cat")
    async with Runtime([seer], store=store) as runtime:
        await runtime.run("a", shows(PICTURE, SMALL), thread="t")
        logged = (await runtime.messages("t"))[0]
        kept = logged.content[1]
        assert isinstance(kept, Image)
        assert isinstance(kept.source, BlobSource)
        assert (kept.source.media_type, kept.source.size) == ("image/png", len(CONTENT))
        assert logged.content[2] == SMALL
        assert (await read_bytes(blobs_of(runtime), "", kept.source.id))[1] == CONTENT
    async with Runtime([seer], store=store) as runtime:
        await runtime.run("a", "sure?", thread="t")

    for request in model.requests:
        assert request.messages[0].content == (Text(text="look"), PICTURE, SMALL)


async def test_every_kind_of_medium_is_kept(store: Store) -> None:
    """A `data:` address is content, too; a nested result's content counts."""
    data = b64encode(CONTENT).decode()
    paper = Document(source=UrlSource(url=f"data:application/pdf;base64,{data}"), title="paper")
    nested = ToolResultBlock(tool_use_id="c", content=(PICTURE,))
    seer, model = agent("seen", "seen")
    async with Runtime([seer], store=store) as runtime:
        await runtime.run("a", shows(paper, nested), thread="t")
        _, kept, around = (await runtime.messages("t"))[0].content
        assert isinstance(kept, Document)
        assert isinstance(kept.source, BlobSource)
        assert (kept.source.name, kept.source.media_type) == ("paper", "application/pdf")
        assert isinstance(around, ToolResultBlock)
        assert isinstance(around.content[0], Image)
        assert isinstance(around.content[0].source, BlobSource)
        await runtime.run("a", "and now?", thread="t")

    sent = Document(source=Base64Source(media_type="application/pdf", data=data), title="paper")
    assert model.requests[1].messages[0].content == (Text(text="look"), sent, nested)


async def test_what_is_no_base64_stays_for_the_adapter_to_refuse(store: Store) -> None:
    broken = Image(source=Base64Source(media_type="image/png", data="?" * 100_000))
    seer, _ = agent("hm")
    async with Runtime([seer], store=store) as runtime:
        await runtime.run("a", shows(broken), thread="t")
        assert (await runtime.messages("t"))[0].content[1] == broken


async def test_a_message_may_refer_to_a_blob_that_was_put_before(store: Store) -> None:
    """A file that was uploaded: it is loaded for the model, and in use from then on."""
    seer, model = agent("seen")
    async with Runtime([seer], store=store) as runtime:
        blob = await put_bytes(blobs_of(runtime), "", b"tiny", "image/png")
        source = BlobSource(id=blob.id, media_type="image/png", size=blob.size)
        await runtime.run("a", shows(Image(source=source)), thread="t")
        await blobs_of(runtime).delete_unreferenced(LATER)
        assert source_in((await runtime.messages("t"))[0]) == source

    inline = Base64Source(media_type="image/png", data=b64encode(b"tiny").decode())
    assert model.requests[0].messages[0].content[1] == Image(source=inline)


@pytest.mark.parametrize("id", ["0" * 32, "../../etc/passwd", "", "x" * 10_000])
async def test_a_message_that_refers_to_no_blob_is_refused_and_nothing_is_written(
    store: Store, id: str
) -> None:
    """06, bad input: a blob that was deleted."""
    seer, model = agent("fine")
    source = BlobSource(id=id, media_type="image/png", size=1)
    async with Runtime([seer], store=store) as runtime:
        with pytest.raises(StorageError) as refused:
            await runtime.run("a", shows(Image(source=source)), thread="t")
        assert isinstance(refused.value.cause, BlobNotFound)
        assert await store.load_thread("t") is None
        assert model.calls == 0
        assert (await runtime.run("a", "hello", thread="t")).response == "fine"


async def test_a_picture_that_cannot_be_kept_is_refused_and_nothing_is_written(
    store: Store,
) -> None:
    class Full:
        async def put(self, *_: Any) -> Any:
            raise StoreUnavailable("no space is left")

    seer, _ = agent("fine")
    full: Any = Full()
    async with Runtime([seer], store=store, blobs=full) as runtime:
        with pytest.raises(StorageError, match="no space is left"):
            await runtime.run("a", shows(PICTURE), thread="t")
        assert await store.load_thread("t") is None
        assert (await runtime.run("a", "hello", thread="t")).response == "fine"


async def test_a_blob_that_is_gone_is_told_to_the_model_and_the_thread_stays_usable(
    store: Store,
) -> None:
    seer, model = agent("a cat", "gone")
    async with Runtime([seer], store=store) as runtime:
        await runtime.run("a", shows(PICTURE), thread="t")
        id = source_in((await runtime.messages("t"))[0]).id
        await _lose(runtime, id)
        await runtime.run("a", "sure?", thread="t")

    said = model.requests[1].messages[0].text()
    assert said.startswith("look[Image (image/png) is gone: blob ")
    assert id in said


async def _lose(runtime: Runtime, id: str) -> None:
    """Delete a blob that is in use, as by hand."""
    blobs: Any = runtime.blobs
    if isinstance(runtime.store, MemoryStore):
        del blobs._kept["", id]
    else:
        (blobs.folder / "_" / id[:2] / id).unlink()


async def test_a_message_that_is_sent_into_a_run_has_its_picture_kept(store: Store) -> None:
    seer, _ = agent("first", "second")
    async with Runtime([seer], store=store) as runtime:
        await runtime.run("a", "hello", thread="t")
        await runtime.run("a", shows(PICTURE), thread="t", when_busy="queue")
        assert source_in((await runtime.messages("t"))[2]).size == len(CONTENT)


async def test_a_forks_pictures_outlive_the_thread_they_came_from(store: Store) -> None:
    """06/SV-14."""
    seer, _ = agent("a cat")
    async with Runtime([seer], store=store) as runtime:
        await runtime.run("a", shows(PICTURE), thread="t")
        await runtime.fork("t", new="fork")
        await runtime.delete_thread("t")
        await blobs_of(runtime).delete_unreferenced(LATER)
        id = source_in((await runtime.messages("fork"))[0]).id
        assert (await read_bytes(blobs_of(runtime), "", id))[1] == CONTENT

        await runtime.delete_thread("fork")
        await blobs_of(runtime).delete_unreferenced(LATER)
        with pytest.raises(BlobNotFound):
            await read_bytes(blobs_of(runtime), "", id)
