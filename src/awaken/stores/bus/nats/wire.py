"""What goes over NATS: names of subjects, and messages. Pure: no connection.

Subjects hold hashes of ids, so an id can neither break out of its subject nor be read from it.
Messages are JSON arrays that begin with the version of this format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple, TypeVar

import msgspec

from awaken.codec import dumps, loads
from awaken.core.bus import PublisherState
from awaken.core.event import RunEvent

VERSION = 1
MAX_BATCH_BYTES = 64 * 1024
"""How many bytes of events a message holds at most."""
MAX_THREADS = 1_000
"""How many threads one `Interest` names at most."""
_HASH_LENGTH = 32
_START, _MIDDLE, _END, _END_LOST = b"[%d,[" % VERSION, b",", b"],false]", b"],true]"
_FRAME = len(_START) + len(_END)


class Batch(msgspec.Struct, array_like=True, frozen=True):
    """Events of one thread, in their order. `lost`: listeners have to look into the store, because
    events are missing, or the claim of their owner has ended."""

    version: int
    events: tuple[RunEvent, ...]
    lost: bool


class Interest(msgspec.Struct, array_like=True, frozen=True):
    """A node says which threads it follows, by their hashes, or (`ends`) no longer follows. With
    `asks`, the other nodes tell theirs, too."""

    version: int
    node: str
    threads: tuple[str, ...] = ()
    ends: bool = False
    asks: bool = False


class OwnerAnswer(msgspec.Struct, array_like=True, frozen=True):
    """The answer of a thread's owner: its position, or `None` if it has no run."""

    version: int
    standing: PublisherState | None


class Unreadable(Exception):
    """A message that is not ours, or of another version; `reason` is a word for the counter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


M = TypeVar("M", Batch, Interest, OwnerAnswer)


def read(data: bytes, kind: type[M]) -> M:
    """
    Raises:
        Unreadable: the message is not of this kind and version.
    """
    try:
        message = loads(data, kind)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        raise Unreadable("invalid" if _version(data) in (VERSION, None) else "version") from None
    if message.version != VERSION:
        raise Unreadable("version")
    return message


def _version(data: bytes) -> int | None:
    """The version of a message that could not be read; `None` if it does not begin with one."""
    number, comma, _ = data[:16].removeprefix(b"[").partition(b",")
    return int(number) if data[:1] == b"[" and comma and number.isdigit() else None


def batch_of(data: bytes, thread_id: str) -> Batch:
    """The events that a thread's owner has sent.

    Raises:
        Unreadable: an event is of another thread, or has no place among the owner's.
    """
    batch = read(data, Batch)
    if not all(_is_placed(event, thread_id) for event in batch.events):
        raise Unreadable("invalid")
    return batch


def parse_publisher_state(data: bytes, thread_id: str) -> PublisherState | None:
    """The answer of a thread's owner.

    Raises:
        Unreadable: as `batch_of`.
    """
    state = read(data, OwnerAnswer).standing
    if state is None:
        return None
    ahead = (event.thread_id == thread_id and (event.seq or 0) > 0 for event in state.ahead)
    if state.epoch < 1 or state.n < 0 or state.seq < 0 or not all(ahead):
        raise Unreadable("invalid")
    return state


def _is_placed(event: RunEvent, thread_id: str) -> bool:
    return (
        event.thread_id == thread_id
        and event.live is not None
        and min(event.live) >= 1
        and (event.seq is None or event.seq >= 1)
    )


def interest_of(data: bytes) -> Interest:
    """
    Raises:
        Unreadable: it is too long, or names no hashes.
    """
    interest = read(data, Interest)
    hashes = (len(t) == _HASH_LENGTH and t.isalnum() for t in interest.threads)
    if len(interest.threads) > MAX_THREADS or len(interest.node) > _HASH_LENGTH or not all(hashes):
        raise Unreadable("invalid")
    return interest


class Packed(NamedTuple):
    """A message; `events` is how many events it has, `dropped` how many before it were not
    packed, because they were too large or could not be written."""

    data: bytes
    events: int
    dropped: int


def pack(events: Iterable[RunEvent], lost: bool, longest: int) -> Iterator[Packed]:
    """The messages for events of a thread, each with at most `longest` bytes.

    Where an event does not fit, a message without events tells listeners to look into the store.
    """
    parts: list[bytes] = []
    size, dropped = _FRAME, 0
    if lost:
        yield Packed(_START + _END_LOST, 0, 0)
    for event in events:
        part = _encode_event(event, longest - _FRAME)
        if part is None:
            dropped += 1
            continue
        if parts and (dropped or size + len(part) + 1 > longest):
            yield Packed(_START + _MIDDLE.join(parts) + _END, len(parts), 0)
            parts, size = [], _FRAME
        if dropped:
            yield Packed(_START + _END_LOST, 0, dropped)
            dropped = 0
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield Packed(_START + _MIDDLE.join(parts) + _END, len(parts), 0)
    if dropped:
        yield Packed(_START + _END_LOST, 0, dropped)


def _encode_event(event: RunEvent, longest: int) -> bytes | None:
    try:
        part = dumps(event)
    except (TypeError, ValueError, RecursionError):
        return None  # a tool's own value that JSON cannot hold
    return part if len(part) <= longest else None


def hash_of(text: str) -> str:
    """What stands for an id in a subject: 32 hexadecimal digits."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_LENGTH // 2).hexdigest()


class Subjects:
    """The subjects of a deployment. All begin with `awk.` and the hash of its name."""

    def __init__(self, deployment: str) -> None:
        root = f"awk.{hash_of(deployment)}"
        self.interest = f"{root}.w"
        self._events, self._owner, self._inbox = f"{root}.t.", f"{root}.o.", f"{root}.i."

    def events(self, thread: str) -> str:
        """Where the owner of a thread, given by its hash, publishes."""
        return self._events + thread

    def owner(self, thread: str) -> str:
        """Where the owner of a thread is asked."""
        return self._owner + thread

    def inbox(self, node: str) -> str:
        """What the subjects begin with that answers for a node go to."""
        return self._inbox + node

    def is_inbox(self, subject: str) -> bool:
        """Whether a subject is one that answers of this deployment go to."""
        return subject.startswith(self._inbox)
