"""A kill between the writing of a blob and the commit that uses it (06 §2.10)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import blob_killed
import pytest

from awaken import Runtime
from awaken.blobs import FolderBlobs, read_bytes
from awaken.core.message import Role, Text
from awaken.stores import SqliteStore

pytestmark = pytest.mark.anyio

LATER = 2**50


def play_until_killed(folder: Path) -> None:
    died = subprocess.run([sys.executable, blob_killed.__file__, str(folder)], timeout=550)
    assert died.returncode == -signal.SIGKILL


async def test_a_kill_before_the_commit_leaves_a_file_that_a_sweep_removes(tmp_path: Path) -> None:
    play_until_killed(tmp_path)
    store = SqliteStore(tmp_path / "awaken.db")

    async with Runtime([blob_killed.reader(tmp_path / "tries")], store=store) as runtime:
        result = await runtime.wait(blob_killed.THREAD, timeout=550)
        blobs = runtime.blobs
        assert isinstance(blobs, FolderBlobs)
        freed = await blobs.delete_unreferenced(LATER)
        (first, _) = [m for m in await runtime.messages("t") if m.role is Role.TOOL]
        (block,) = first.content
        assert isinstance(block, Text)
        assert block.whole is not None
        _, content = await read_bytes(blobs, "", block.whole.id)
    await store.close()

    assert result.response == "2:yy"
    assert freed.blobs == 1
    assert content == b"2:" + b"y" * 200_000
