"""Where threads are kept, as the command line says it, and how to come back to one."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from urllib.parse import unquote

import msgspec

from awaken.cli.exits import Mistake
from awaken.cli.question import line_to_answer, shell_word
from awaken.domain.run import RunWaitingTicket

DEFAULT_STORE = "sqlite:///awaken.db"
STORE_VARIABLE = "AWAKEN_STORE"
_FILES = "sqlite:///"


def store_address(given: str | None) -> str:
    """The address given, else the environment's, else a file in the current directory."""
    return given or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


def existing_store(given: str | None) -> str:
    """The address of a store that others have written, for commands that only look and steer.

    Raises:
        Mistake: there is nothing to look at; looking would make an empty store.
    """
    address = store_address(given)
    if address.startswith("memory:"):
        raise Mistake(
            f"{address} is gone with the process that wrote it: name a store that lasts, "
            f"as in --store {DEFAULT_STORE}"
        )
    path = Path(unquote(address.removeprefix(_FILES).partition("?")[0]))
    if address.startswith(_FILES) and not path.exists():
        raise Mistake(
            f"there is no store at {path} (looked in {Path.cwd()}): change to the directory where "
            f"the agents ran, name it with --store sqlite:///path or {STORE_VARIABLE}, "
            "or run something first"
        )
    return address


def way_back(target: str, store: str | None, *, new_thread: bool = False) -> WayBack | None:
    """How to come back to a run of this command; nothing if its threads go with it."""
    if store_address(store).startswith("memory:"):
        return None
    return WayBack(target, store, new_thread)


class WayBack(msgspec.Struct, frozen=True):
    """What to type to come back to a run that waits, in another process or on another day.

    `target` is what stands for the agents on the command line, `store` the address if it was given;
    the name of a `new_thread` has to be told.
    """

    target: str
    store: str | None = None
    new_thread: bool = False

    def decide(self, thread: str, ticket: RunWaitingTicket) -> str:
        return f"{line_to_answer(thread, ticket)}{self._option()}"

    def resume(self, thread: str) -> str:
        return f"awaken resume {shlex.quote(self.target)} {shell_word(thread)}{self._option()}"

    def _option(self) -> str:
        return f" --store {shlex.quote(self.store)}" if self.store else ""
