"""Starting, watching and ending child processes.

The modules that use it exchange data with their children: lines, frames or HTTP.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import IO, Protocol

INHERITED_VARIABLES = (
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "PYTHONPATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
)
"""The variables a child that runs users' code gets from its parent, besides `LC_*`. API keys and
passwords are not among them: `pass_env` names those the code needs."""

DEPTH_VARIABLE = "AWAKEN_PROCESS_DEPTH"
"""The variable that counts how many agents' processes stand above a process."""


def child_environment(pass_env: Collection[str] = ()) -> dict[str, str]:
    """The environment of a child that runs users' code: variables that hold no secrets (see
    `INHERITED_VARIABLES`), and those that `pass_env` names."""
    names = {*INHERITED_VARIABLES, DEPTH_VARIABLE, *pass_env}
    return {k: v for k, v in os.environ.items() if k in names or k.startswith("LC_")}


def describe_exit(code: int) -> str:
    """A return code, as `Popen` gives it, in words."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


class Closeable(Protocol):
    def close(self) -> object: ...


class ChildProcess:
    """A child process that leads a process group of its own; any thread may signal or end it.

    When the child exits, the processes that are left in its group are killed. `exited` then has
    its return code, as `Popen` gives it.

    Its stdin is a pipe that this process alone holds open, so a child that ends at the end of its
    stdin ends with this process, even if this process is killed. The caller reads and closes the
    pipes `stdout` and `stderr`, if it asked for them.

    Args:
        pass_fds: file descriptors that the child gets besides its stdin, stdout and stderr.
        channel: another channel from this process to the child; it is closed together with stdin.

    Raises:
        OSError: the child cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        stdout: int = subprocess.PIPE,
        stderr: int | None = subprocess.PIPE,
        pass_fds: Collection[int] = (),
        channel: Closeable | None = None,
    ) -> None:
        self.exited: Future[int] = Future()
        self.exited.set_running_or_notify_cancel()  # a waiting thread cannot cancel it
        self._lock = threading.Lock()
        self._reaped = False
        self._channel = channel
        with FORK_LOCK:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                bufsize=0,
                env=env,
                cwd=cwd,
                pass_fds=tuple(pass_fds),
                # The terminal's Ctrl-C is for us: we decide how our children end.
                start_new_session=True,
            )
            _CHILDREN.add(self)
        try:
            threading.Thread(target=self._reap, name=f"process-{self.pid}", daemon=True).start()
        except RuntimeError as error:  # the system gives us no thread
            with self._popen:
                self.kill()
                self._reap()
            self.close()
            raise OSError(str(error)) from error

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def stdin(self) -> IO[bytes]:
        return _pipe(self._popen.stdin)

    @property
    def stdout(self) -> IO[bytes]:
        return _pipe(self._popen.stdout)

    @property
    def stderr(self) -> IO[bytes]:
        return _pipe(self._popen.stderr)

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the child and its whole group; does nothing if the child has been reaped."""
        with self._lock:
            if not self._reaped:
                self._signal_group(number)

    def kill(self) -> None:
        """Kill the child and its whole group, without waiting for their end."""
        self.send_signal(signal.SIGKILL)

    def end(self, grace: float = 0.0) -> int:
        """Give the child `grace` seconds to exit, then kill it; wait for its end, and `close`.

        Returns its return code. A child that is exiting already keeps the code it exits with.
        """
        with suppress(TimeoutError):
            self.exited.result(grace)
        self.kill()
        code = self.exited.result()
        self.close()
        return code

    def close(self) -> None:
        """Close the stdin and the channel that lead to the child."""
        with FORK_LOCK:
            self._close()
            _CHILDREN.discard(self)

    def _close(self) -> None:
        self.stdin.close()
        if self._channel is not None:
            self._channel.close()

    def _disown(self) -> None:
        """Forget the child in a fork of this process; the child ends with this process."""
        self._lock, self._reaped = threading.Lock(), True
        self._popen.returncode = self._popen.returncode or 0
        self.exited = Future()
        self.exited.set_result(self._popen.returncode)
        self._close()

    def _reap(self) -> None:
        """Wait until the child exits, kill the rest of its group, and publish its return code."""
        # A child's number, which is also its group's, is not given to another process until the
        # child is reaped. Where the system cannot wait without reaping, we take the risk.
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()
        with self._lock:
            self._signal_group(signal.SIGKILL)
            code = self._popen.wait()
            self._reaped = True
        self.exited.set_result(code)

    def _signal_group(self, number: signal.Signals) -> None:
        # Some systems refuse to signal a group whose processes are all dead.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "the child was started without this pipe"
    return pipe


# -- forks of this process ----------------------------------------------------------------------

FORK_LOCK = threading.RLock()
"""Held while pipes to a child are opened or closed: a fork in between would keep their ends."""
_CHILDREN: set[ChildProcess] = set()


def _disown_all() -> None:
    # A fork that held the ends of our children's pipes would keep them alive after our death.
    for child in _CHILDREN:
        child._disown()
    _CHILDREN.clear()
    FORK_LOCK.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=FORK_LOCK.acquire, after_in_parent=FORK_LOCK.release, after_in_child=_disown_all
    )
