"""The store's address on the command line, and the commands that return to a run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from urllib.parse import unquote

import msgspec

from awaken.cli.exit_codes import Mistake
from awaken.cli.question import line_to_answer, shell_word
from awaken.core.run import RunWaitingTicket

DEFAULT_STORE = "sqlite:///awaken.db"
STORE_VARIABLE = "AWAKEN_STORE"
BUS_VARIABLE = "AWAKEN_BUS"
_FILES = "sqlite:///"


def store_address(given: str | None) -> str:
    """The given address, else that of the environment, else a file in the current directory."""
    return given or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


def bus_address(given: str | None) -> str | None:
    """The given address of a live bus, else that of the environment, else `None`."""
    return given or os.environ.get(BUS_VARIABLE) or None


def resolve_existing_store(given: str | None) -> str:
    """The address of an existing store, for commands that read or control what others have written.

    Raises:
        Mistake: the store does not exist; opening it would create an empty one.
    """
    address = store_address(given)
    if address.startswith("memory:"):
        raise Mistake(
            f"{address} exists only in the process that wrote it: name a durable store, "
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
    """How to return to a run of this command; `None` if its threads are only in memory."""
    if store_address(store).startswith("memory:"):
        return None
    return WayBack(target, store, new_thread)


class WayBack(msgspec.Struct, frozen=True):
    """The commands that return to a waiting run, from another process or on another day.

    `target` names the agents on the command line; `store` is the address, if it was given. The id
    of a `new_thread` has to be shown.
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
