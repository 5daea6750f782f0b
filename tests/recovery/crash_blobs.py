"""What must hold of the blobs of a crash scenario: none is lost, and none is left behind."""

from __future__ import annotations

from crash_life import Stage
from crash_world import SURVEY

from awaken.blobs import read_bytes
from awaken.clock import SYSTEM_CLOCK
from awaken.core.blobs import BlobStore
from awaken.core.message import Text
from awaken.errors import BlobDamaged, BlobNotFound
from awaken.runtime.open_by_name import blobs_beside
from awaken.testing.chaos import NoteKind, ThreadDump

LATER = 2**50


async def blob_faults(stage: Stage, final: ThreadDump) -> list[str]:
    """Sweep, then compare what is left with what the log refers to and with what tools returned."""
    if not await stage.site.kept_blobs():
        return []
    store = stage.store()
    await store.open()
    try:
        blobs = blobs_beside(store, SYSTEM_CLOCK)
        assert blobs is not None
        await blobs.delete_unreferenced(LATER)
        used = _used(final)
        left = await stage.site.kept_blobs()
        lost = await _lost(stage, blobs, used)
        return [*lost, *(f"{name} is left behind in the blobs" for name in sorted(left - used))]
    finally:
        await store.close()


def _used(final: ThreadDump) -> set[str]:
    """The ids of the blobs that messages refer to."""
    return {
        block.whole.id
        for thread in final.threads()
        for message in thread.messages
        for block in message.content
        if isinstance(block, Text) and block.whole is not None
    }


async def _lost(stage: Stage, blobs: BlobStore, used: set[str]) -> list[str]:
    returned = {SURVEY} | {
        f"{note.detail}: {SURVEY}"
        for note in stage.effect_log.notes()
        if note.kind is NoteKind.EFFECT and note.name == "survey_anew"
    }
    found: list[str] = []
    for id in used:
        try:
            _, content = await read_bytes(blobs, "", id)
        except (BlobNotFound, BlobDamaged) as error:
            found.append(f"a result is lost: {error}")
        else:
            if content.decode() not in returned:
                found.append(f"blob {id} is not what the tool has returned")
    return found
