"""`awaken db check`: finding, and mending, the rows of a store that cannot be read."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import click

from awaken.cli.exit_codes import ExitCode, Mistake
from awaken.cli.options import print_json, steers
from awaken.cli.output import complain, count, say, silence_unreadable, terminal_line
from awaken.cli.store_address import resolve_existing_store
from awaken.core.secret import redact_address
from awaken.core.value import Value
from awaken.runtime.open_by_name import open_store
from awaken.stores.sql.row_check import Backup, CheckedRow, HasRows, check_rows
from awaken.stores.sqlite import SqliteStore


class CheckOutput(Value, frozen=True, kw_only=True):
    """What `--json` prints: how many rows there are, those that cannot be read, and the file with
    the old bytes of those that were mended."""

    rows: int
    unreadable: tuple[CheckedRow, ...]
    backup: str | None = None

    @property
    def still_unreadable(self) -> int:
        """How many rows still cannot be read."""
        return sum(not row.was_mended for row in self.unreadable)


@click.command(short_help="Find the rows that cannot be read, and mend them.")
@click.option("--mend", is_flag=True, help="Mend the rows that can be mended without loss.")
@click.option(
    "--backup",
    "to",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --mend: a new file for the old bytes.  [default: one beside an SQLite file, else in "
    "this directory]",
)
@steers
def check(mend: bool, to: Path | None, store: str | None, as_json: bool) -> ExitCode:
    """Read every row of a store, and say which cannot be read by this version. It changes nothing.

    \b
      awaken db check
      awaken db check --mend
      awaken db check --store postgresql://… --json | jq -r '.unreadable[].id'

    With --mend, a number that stands where a text belongs becomes that text, and a whole number
    with a decimal point becomes an integer, if the row can be read then. Nothing else is changed; a
    row with fields that this version does not know is left alone. The old bytes are in a file
    before the first change.

    Servers and workers may go on meanwhile. The threads that they own are left alone: do it again
    when their runs have ended. The exit code is 1 if rows are left that cannot be read.
    """
    if to is not None and not mend:
        raise Mistake("--backup is for --mend: without it, nothing is changed")
    if to is not None and to.exists():
        raise Mistake(f"{to} is there already: name a new file")
    address = resolve_existing_store(store)
    with silence_unreadable():
        done = asyncio.run(_check(address, to, mend=mend))
    if as_json:
        print_json(done)
    else:
        _print_output(done, mend=mend)
    return ExitCode.FAILED if done.still_unreadable else ExitCode.DONE


async def _check(address: str, to: Path | None, *, mend: bool) -> CheckOutput:
    """
    Raises:
        Mistake: the store has no rows that can be checked, or the file cannot be written.
    """
    store = open_store(address)
    if not isinstance(store, HasRows):
        raise Mistake(f"{redact_address(address)} has no rows to check: name a store that stays")
    backup = None
    if mend:
        beside = Path(store.path) if isinstance(store, SqliteStore) else Path("awaken")
        backup = Backup(to or _choose_backup_path(beside))
    rows, unreadable = 0, list[CheckedRow]()
    try:
        await store.open()
        async for part in check_rows(store, backup):
            rows += part.rows
            unreadable += part.unreadable
    except OSError as error:
        raise Mistake(f"the old bytes cannot be kept, so no row is changed: {error}") from error
    finally:
        await store.close()
    made = str(backup.path) if backup is not None and backup.is_made else None
    return CheckOutput(rows=rows, unreadable=tuple(unreadable), backup=made)


def _choose_backup_path(beside: Path) -> Path:
    """The name of a file that is not there yet."""
    stem = f"{beside.name}.mended-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    number, name = 1, f"{stem}.jsonl"
    while (path := beside.with_name(name)).exists():
        number += 1
        name = f"{stem}-{number}.jsonl"
    return path


def _print_output(done: CheckOutput, *, mend: bool) -> None:
    for row in done.unreadable:
        say(terminal_line(f"{row.name}: {row.reason} ({_outcome(row, mend=mend)})", 1_000))
    if done.backup is not None:
        say(f"the old bytes of the mended rows are in {done.backup}")
    mendable = sum(row.can_be_mended for row in done.unreadable)
    if not done.unreadable:
        say(f"{count(done.rows, 'row')}: all can be read")
    elif mend:
        left = done.still_unreadable
        mended = len(done.unreadable) - left
        say(f"{count(done.rows, 'row')}: {mended} mended, {left} left that cannot be read")
    else:
        say(
            f"{count(done.rows, 'row')}: {len(done.unreadable)} cannot be read, of which "
            f"{mendable} can be mended"
        )
        if mendable:
            complain("mend them with `awaken db check --mend`")


def _outcome(row: CheckedRow, *, mend: bool) -> str:
    if row.was_mended:
        return "mended"
    if row.why_left is not None:
        return f"left: {row.why_left}"
    if row.can_be_mended:
        return "can be mended"
    return "left: it cannot be mended without loss" if mend else "cannot be mended without loss"
