"""Which owners are alive: each holds an operating-system lock on a file beside the database.

The kernel drops the lock when the process ends, however it ends, so no process waits for a lease.
Owner names come from the database, which may have been tampered with: only a name of the form that
this module makes is used as part of a file name, and only empty regular files are removed.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import socket
import stat
import sys
import time
import weakref

from awaken.core.store.store import Process
from awaken.errors import StoreUnavailable
from awaken.ids import Ids
from awaken.stores.sqlite.address import MEMORY

if sys.platform == "win32":
    import msvcrt

    _LOOK = os.O_RDWR

    def _try_lock(fd: int, *, shared: bool = False) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    _LOOK = os.O_RDONLY  # enough to try the lock, also on another user's file

    def _try_lock(fd: int, *, shared: bool = False) -> bool:
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


# Do not follow links and do not wait for pipes (Windows has neither flag).
_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OWNER = re.compile(r"[A-Za-z0-9._-]+")
_NAME = re.compile(r"(?P<host>.+)-(?P<pid>\d{1,10})-[^-]+")
"""An owner's name, as `new_owner` makes it."""
_NO_LOCK_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG)


def new_owner(ids: Ids) -> str:
    """A new owner name for an opened store, with the host name and the process id."""
    name = f"{socket.gethostname()}-{os.getpid()}-{ids.new()[-12:]}"
    return re.sub(r"[^A-Za-z0-9.-]+", "_", name)  # it becomes part of a file name


class Owners:
    """Holds the lock file of this owner, and checks those of others."""

    def __init__(self, path: str, me: str) -> None:
        self._path = path
        self.me = me
        self._fd: int | None = None
        _all.add(self)

    def forget(self) -> None:
        """Close the lock file without unlocking it: a forked child shares it with its parent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _file(self, owner: str) -> str:
        return f"{self._path}-owner-{owner}"

    def lock(self) -> None:
        """Take the lock, which shows that this owner is alive.

        This must happen before the owner's name is written to the database.
        """
        if self._fd is not None or self._path == MEMORY:
            return
        name, rights = self._file(self.me), _lock_file_mode(self._path)
        for _ in range(100):
            fd = os.open(name, os.O_CREAT | os.O_RDWR | _OPEN_FLAGS, 0o600)
            # Another owner's `tidy` may have removed the file between opening and locking it.
            if _try_lock(fd) and _is_same(fd, name):
                if rights != 0o600:
                    os.fchmod(fd, rights)
                self._fd = fd
                return
            os.close(fd)
            time.sleep(0.001)
        raise StoreUnavailable(
            f"lock file {name} belongs to this store but another process has locked it: remove it"
        )

    def lock_if_writable(self) -> None:
        """Take the lock if this process may write beside the database: a process that has the store
        open is seen by others before it claims its first thread."""
        with contextlib.suppress(OSError, StoreUnavailable):
            self.lock()

    def processes(self) -> list[Process]:
        """The processes whose owners hold their locks, and this one, by owner."""
        start = self._file("")
        names = [] if self._path == MEMORY else glob.glob(f"{glob.escape(start)}*")
        found = {self.me: _process(self.me, self._file(self.me))}
        for name in names:
            owner = name[len(start) :]
            if owner != self.me and self.is_alive(owner):
                found[owner] = _process(owner, name)
        return [found[owner] for owner in sorted(found)]

    def unlock(self) -> None:
        if self._fd is None:
            return
        os.close(self._fd)
        self._fd = None
        with contextlib.suppress(OSError):
            os.unlink(self._file(self.me))

    def is_alive(self, owner: str) -> bool:
        """Whether the owner still holds its lock; the lock file of a dead owner is removed."""
        if owner == self.me:
            return True
        if self._path == MEMORY or not _OWNER.fullmatch(owner):
            return False
        return self._look(self._file(owner)) is None

    def tidy(self) -> int:
        """Remove the lock files of all dead owners; returns how many there were."""
        start = self._file("")
        names = glob.glob(f"{glob.escape(start)}*")
        return sum(
            name != self._file(self.me)
            and _OWNER.fullmatch(name[len(start) :]) is not None
            and self._look(name) is True
            for name in names
        )

    def _look(self, name: str) -> bool | None:
        """Try to remove a lock file. Returns whether it did, or `None` if its owner is alive."""
        try:
            fd = os.open(name, _LOOK | _OPEN_FLAGS)
        except OSError as error:
            # A file that exists but may not be opened counts as a live owner's.
            return False if error.errno in _NO_LOCK_FILE else None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return False
            # A shared lock, so that two processes that check at once do not see each other's lock.
            if not _try_lock(fd, shared=True):
                return None
            if found.st_size or not _is_same(fd, name):
                return False  # not a lock file of ours, or another process has removed it
            with contextlib.suppress(OSError):
                os.unlink(name)
            return True
        finally:
            os.close(fd)


def _process(owner: str, file: str) -> Process:
    """What the name of an owner, and its lock file, say about its process."""
    match = _NAME.fullmatch(owner)
    try:
        since = os.stat(file, follow_symlinks=False).st_mtime_ns // 1_000_000
    except OSError:
        since = None  # it has ended meanwhile, or has no lock
    return Process(
        owner=owner,
        host=match["host"] if match else None,
        pid=int(match["pid"]) if match else None,
        since_ms=since,
    )


_all: weakref.WeakSet[Owners] = weakref.WeakSet()


def _after_fork() -> None:
    # A child process must not keep its dead parent's lock, and thereby its threads.
    for owners in list(_all):
        owners.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _is_same(fd: int, name: str) -> bool:
    try:
        there = os.lstat(name)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _lock_file_mode(path: str) -> int:
    """The permissions of a lock file: only users who may write the database may open it.

    A user who can open the file can lock it, and would then count as its live owner.
    """
    mode = os.stat(path).st_mode if sys.platform != "win32" and os.path.exists(path) else 0
    return 0o600 | (0o060 if mode & 0o020 else 0) | (0o006 if mode & 0o002 else 0)
