"""The folder of blobs under attack: full disks, other processes, and hands that change files."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest

from awaken.blobs import FolderBlobs
from awaken.core.blobs import BlobStore, ByteRange, put_bytes, read_bytes
from awaken.errors import BlobDamaged, BlobNotFound, StoreUnavailable

pytestmark = pytest.mark.anyio

LATER = 2**50
HEAD = 4096


class Uses:
    """Stands for the store: knows which blobs are in use."""

    def __init__(self, *ids: str) -> None:
        self.ids = set(ids)

    async def filter_used_blobs(
        self, ids: Collection[str], *, thread_id: str | None = None
    ) -> frozenset[str]:
        return frozenset(self.ids & set(ids))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db-blobs"


@pytest.fixture
def blobs(folder: Path) -> FolderBlobs:
    return FolderBlobs(folder, Uses())


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def put(blobs: BlobStore, text: str = "hello") -> str:
    return (await put_bytes(blobs, "", text.encode(), "text/plain", "a.txt")).id


async def test_a_blob_is_one_file_with_its_content_behind_the_head(
    blobs: FolderBlobs, folder: Path
) -> None:
    id = await put(blobs)

    (file,) = files(folder)
    assert file == folder / "_" / id[:2] / id
    assert file.read_bytes()[HEAD:] == b"hello"


async def test_only_the_user_may_read_the_files(blobs: FolderBlobs, folder: Path) -> None:
    await put(blobs)

    (file,) = files(folder)
    folders = (folder, file.parent.parent, file.parent)
    assert [mode_of(path) for path in (*folders, file)] == [0o700, 0o700, 0o700, 0o600]


async def test_a_large_blob_is_written_and_read_in_little_memory(blobs: FolderBlobs) -> None:
    """06/SV-36: constant memory."""
    piece = b"x" * 65_536

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(512):
            yield piece

    tracemalloc.start()
    try:
        blob = await blobs.put("", stream(), "text/plain")
        async with blobs.open("", blob.id) as opened:
            length = sum([len(piece) async for piece in opened])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert length == blob.size == 32 * 1024 * 1024
    assert peak < 4 * 1024 * 1024


# -- hands ------------------------------------------------------------------------------------


async def test_a_file_deleted_by_hand_is_a_blob_that_does_not_exist(
    blobs: FolderBlobs, folder: Path
) -> None:
    id = await put(blobs)
    files(folder)[0].unlink()

    with pytest.raises(BlobNotFound, match=id):
        await read_bytes(blobs, "", id)
    assert await put(blobs) == id
    assert (await read_bytes(blobs, "", id))[1] == b"hello"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content + b"!",
        lambda content: content[:HEAD] + b"jello",
        lambda content: b"?" + content[1:],
        lambda content: b"",
        lambda content: content[:100],
    ],
)
async def test_a_changed_file_is_noticed_and_healed_by_putting_it_again(
    blobs: FolderBlobs, folder: Path, damage: object
) -> None:
    id = await put(blobs)
    file = files(folder)[0]
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]

    with pytest.raises(BlobDamaged, match=id):
        await read_bytes(blobs, "", id)
    await put(blobs)
    assert (await read_bytes(blobs, "", id))[1] == b"hello"


async def test_a_file_that_shrinks_while_it_is_read_is_noticed(
    blobs: FolderBlobs, folder: Path
) -> None:
    id = await put(blobs, "x" * 1_000_000)

    async def read() -> None:
        async with blobs.open("", id, ByteRange(start=1)) as opened:
            async for _ in opened:
                os.truncate(files(folder)[0], HEAD + 10)

    with pytest.raises(BlobDamaged, match="ends after"):
        await read()


async def test_a_link_in_place_of_a_blob_is_not_followed(
    blobs: FolderBlobs, folder: Path, tmp_path: Path
) -> None:
    id = await put(blobs)
    file = files(folder)[0]
    (tmp_path / "elsewhere").write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreUnavailable, match=id):
        await read_bytes(blobs, "", id)


# -- the sweep --------------------------------------------------------------------------------


async def test_what_a_killed_writer_left_is_swept(blobs: FolderBlobs, folder: Path) -> None:
    await put(blobs)
    (folder / "_" / "part-left").write_bytes(b"half")
    (folder / "_" / "notes.txt").write_bytes(b"a file of another program")

    await blobs.delete_unreferenced(0)
    assert len(files(folder)) == 3
    await blobs.delete_unreferenced(LATER)
    assert [file.name for file in files(folder)] == ["notes.txt"]


async def test_a_blob_that_is_put_again_during_a_sweep_stays(folder: Path) -> None:
    """Between the sweep's question to the store and its deletion, another process may commit."""

    class Racing(Uses):
        async def filter_used_blobs(
            self, ids: Collection[str], *, thread_id: str | None = None
        ) -> frozenset[str]:
            await put(racing)
            return frozenset()

    racing = FolderBlobs(folder, Racing())
    id = await put(racing)
    os.utime(files(folder)[0], (1, 1))

    assert (await racing.delete_unreferenced(10_000)).blobs == 0
    assert (await read_bytes(racing, "", id))[1] == b"hello"
    assert [file.name for file in files(folder)] == [id]


async def test_a_blob_in_use_that_a_killed_sweep_left_without_its_name_comes_back(
    folder: Path,
) -> None:
    uses = Uses()
    blobs = FolderBlobs(folder, uses)
    id, other = await put(blobs), await put(blobs, "other")
    for file in files(folder):
        file.rename(f"{file}.gone")
    uses.ids = {id}

    await blobs.delete_unreferenced(LATER)

    assert [file.name for file in files(folder)] == [id]
    with pytest.raises(BlobNotFound):
        await read_bytes(blobs, "", other)


async def test_sweeping_a_folder_that_is_not_there_deletes_nothing(blobs: FolderBlobs) -> None:
    assert (await blobs.delete_unreferenced(LATER)).blobs == 0


# -- disks and processes ----------------------------------------------------------------------

_PUT = """
import asyncio, resource, sys
from awaken.blobs import FolderBlobs
from awaken.core.blobs import put_bytes
from awaken.errors import StoreUnavailable

async def main():
    folder, size, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sys.stdin.readline()
    try:
        blob = await put_bytes(FolderBlobs(folder, None), "", b"x" * size, "text/plain")
    except StoreUnavailable as error:
        print("refused:", error)
    else:
        print(blob.id)

asyncio.run(main())
"""


def start_put(folder: Path, size: int, limit: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _PUT, str(folder), str(size), str(limit)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_a_full_disk_leaves_nothing_and_says_what_to_do(
    blobs: FolderBlobs, folder: Path
) -> None:
    said, _ = start_put(folder, 3_000_000, limit=1_000_000).communicate("\n", timeout=60)

    assert said.startswith("refused: no blob can be written")
    assert "check that the disk has space" in said
    assert files(folder) == []


async def test_two_processes_that_put_the_same_content_have_one_blob(
    blobs: FolderBlobs, folder: Path
) -> None:
    writers = [start_put(folder, 3_000_000) for _ in range(3)]
    ids = {writer.communicate("\n", timeout=60)[0].strip() for writer in writers}

    assert len(ids) == 1
    assert (await read_bytes(blobs, "", ids.pop()))[1] == b"x" * 3_000_000
    assert len(files(folder)) == 1
