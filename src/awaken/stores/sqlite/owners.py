"""Which owners are alive: each holds an operating-system lock on a file beside the database.

The kernel drops the lock when the process ends, however it ends, so no process waits for a lease.
Names of owners are read from the database, which a stranger may have written: only a name of the
kind this module makes leads to a file, and only an empty regular file is ever removed.
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

    _LOOK = os.O_RDONLY  # the lock can be tried on another user's file, too

    def _try_lock(fd: int, *, shared: bool = False) -> bool:
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


# A link is not followed, and a pipe not waited for (Windows has neither flag).
_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OWNER = re.compile(r"[A-Za-z0-9._-]+")
_NO_LOCK_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG)


def new_owner(ids: Ids) -> str:
    """A name for one opened store; it says where to look for the process."""
    name = f"{socket.gethostname()}-{os.getpid()}-{ids.new()[-12:]}"
    return re.sub(r"[^A-Za-z0-9.-]+", "_", name)  # it is part of a file's name, too


class Owners:
    """The lock file of this owner, and a look at those of others."""

    def __init__(self, path: str, me: str) -> None:
        self._path = path
        self.me = me
        self._fd: int | None = None
        _all.add(self)

    def forget(self) -> None:
        """Let go of the lock's file without unlocking it: a forked child shares it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _file(self, owner: str) -> str:
        return f"{self._path}-owner-{owner}"

    def take(self) -> None:
        """Show others that this owner is alive; must come before its name is in the database."""
        if self._fd is not None or self._path == MEMORY:
            return
        name, rights = self._file(self.me), _rights_beside(self._path)
        for _ in range(100):
            fd = os.open(name, os.O_CREAT | os.O_RDWR | _SAFELY, 0o600)
            # Another owner that tidies up may have unlinked it between our opening and locking it.
            if _try_lock(fd) and _is_same(fd, name):
                if rights != 0o600:
                    os.fchmod(fd, rights)
                self._fd = fd
                return
            os.close(fd)
            time.sleep(0.001)
        raise StoreUnavailable(f"{name} is locked, though it is this store's own: remove it")

    def give_up(self) -> None:
        if self._fd is None:
            return
        os.close(self._fd)
        self._fd = None
        with contextlib.suppress(OSError):
            os.unlink(self._file(self.me))

    def is_alive(self, owner: str) -> bool:
        """Whether the owner still holds its lock; the file of a dead one is removed."""
        if owner == self.me:
            return True
        if self._path == MEMORY or not _OWNER.fullmatch(owner):
            return False
        return self._look(self._file(owner)) is None

    def tidy(self) -> int:
        """Remove the files of all dead owners, and say how many there were."""
        start = self._file("")
        names = glob.glob(f"{glob.escape(start)}*")
        return sum(
            name != self._file(self.me)
            and _OWNER.fullmatch(name[len(start) :]) is not None
            and self._look(name) is True
            for name in names
        )

    def _look(self, name: str) -> bool | None:
        """Whether the file of a dead owner was removed; `None` if its owner is alive."""
        try:
            fd = os.open(name, _LOOK | _SAFELY)
        except OSError as error:
            # A file this process may not open is there, and not for it to try.
            return False if error.errno in _NO_LOCK_FILE else None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return False
            # Shared: two that look at once must not take each other for the owner.
            if not _try_lock(fd, shared=True):
                return None
            if found.st_size or not _is_same(fd, name):
                return False  # no owner made that, or another one has removed it
            with contextlib.suppress(OSError):
                os.unlink(name)
            return True
        finally:
            os.close(fd)


_all: weakref.WeakSet[Owners] = weakref.WeakSet()


def _after_fork() -> None:
    # A child that lives on must not keep its dead parent's threads owned.
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


def _rights_beside(path: str) -> int:
    """The rights of a lock file: those who may write the database may look at it.

    Everyone who can open it can lock it, and would be taken for its owner.
    """
    mode = os.stat(path).st_mode if sys.platform != "win32" and os.path.exists(path) else 0
    return 0o600 | (0o060 if mode & 0o020 else 0) | (0o006 if mode & 0o002 else 0)
