"""`awaken db`: checking a store, the tables of one in Postgres, and what a tenant has in any."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import click
import msgspec

from awaken.cli.commands.db_check import check
from awaken.cli.commands.gc import describe_freed
from awaken.cli.exit_codes import ExitCode, Mistake
from awaken.cli.options import MOST_LISTED, print_json, steers
from awaken.cli.output import complain, count, say, terminal_line
from awaken.cli.question import shell_word
from awaken.cli.store_address import store_address
from awaken.cli.store_view import StoreView, run_with_store_view
from awaken.core.secret import redact_address
from awaken.core.store.threads import DeleteResult, ThreadQuery
from awaken.core.value import Value
from awaken.stores import postgres


@click.group(short_help="Check a store, migrate one in Postgres, or forget a tenant.")
def db() -> None:
    """Check that a store can be read, bring its tables in Postgres up to date, or delete what a
    tenant has in it.

    \b
      awaken db check
      awaken db migrate --dry-run --store postgresql://…
      awaken db migrate --store postgresql://…
      awaken db forget --scope acme --dry-run

    Old threads are deleted by `awaken gc`.
    """


db.add_command(check)


@db.command()
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@steers
def migrate(dry_run: bool, store: str | None, as_json: bool) -> ExitCode:
    """Make the tables of a store, or bring them up to date. Nodes may go on to run meanwhile.

    A node works with the tables of its own version and of the next one. So migrate first, then
    replace the nodes one by one.
    """
    address = store_address(store)
    if not is_postgres(address):
        raise Mistake(
            f"{redact_address(address)} needs no migrate: a file is brought up to date when it is "
            "opened; name a database with --store postgresql://…"
        )
    done = migrate_tables(address, dry_run=dry_run)
    if as_json:
        return print_json(done)
    for line in migration_lines(done, dry_run=dry_run):
        say(line)
    return ExitCode.DONE


def is_postgres(address: str) -> bool:
    return address.startswith(("postgresql:", "postgres:"))


def migrate_tables(address: str, *, dry_run: bool = False) -> postgres.Migrated:
    """Bring the tables of a store in Postgres up to date.

    Raises:
        Mistake: the extra `postgres` is not installed.
        StoreUnavailable: the database cannot be used.
    """
    try:
        migrate_address = postgres.migrate_address
    except ModuleNotFoundError as error:
        raise Mistake(str(error)) from error
    return asyncio.run(migrate_address(address, dry_run=dry_run))


def migration_lines(done: postgres.Migrated, *, dry_run: bool = False) -> Iterator[str]:
    """What a migration did, or would do, in words."""
    for name in done.steps:
        yield f"{'would apply' if dry_run else 'applied'} {name}"
    state = "is" if not dry_run or not done.steps else "would be"
    yield f"schema {done.schema} {state} at version {done.version}"


class ForgetOutput(Value, frozen=True, kw_only=True):
    """What `--json` prints: what was deleted, and the threads that are kept, because they run, or
    that would be deleted."""

    freed: DeleteResult | None = None
    kept: tuple[str, ...] | None = None
    would_free: tuple[str, ...] | None = None


@db.command()
@click.option("--scope", required=True, metavar="NAME", help="The tenant.")
@click.option("--dry-run", is_flag=True, help="List the threads; delete nothing.")
@steers
def forget(scope: str, dry_run: bool, store: str | None, as_json: bool) -> ExitCode:
    """Delete everything that a tenant has: its keys, sessions and audit in the store, threads with
    their runs, profiles, and blobs.

    Runs may be in any state, but for those that a process carries out: they are kept and named.
    Cancel them, and do it again. Revoke keys in a file first (`awaken keys`), or new threads may
    come. Nothing else is held up; and if it is cut short, the next time goes on with the rest.
    """

    async def work(store_view: StoreView) -> ExitCode:
        if dry_run:
            return _print_output(
                ForgetOutput(would_free=await _list_scope_threads(store_view, scope)), as_json
            )
        freed = await store_view.runtime.forget_scope(scope)
        return _print_output(
            ForgetOutput(freed=freed, kept=await _list_scope_threads(store_view, scope)), as_json
        )

    return run_with_store_view(store, work)


async def _list_scope_threads(store_view: StoreView, scope: str) -> tuple[str, ...]:
    found: list[str] = []
    query = ThreadQuery(scope=scope, limit=MOST_LISTED)
    while True:
        page = await store_view.store.list_threads(query)
        found += [thread.id for thread in page] + [row.id for row in page.unreadable]
        if page.cursor is None:
            return tuple(found)
        query = msgspec.structs.replace(query, cursor=page.cursor)


def _print_output(done: ForgetOutput, as_json: bool) -> ExitCode:
    code = ExitCode.FAILED if done.kept else ExitCode.DONE
    if as_json:
        print_json(done)
        return code
    for id in done.would_free or ():
        say(terminal_line(id))
    if done.would_free is not None:
        say(f"{count(len(done.would_free), 'thread')} would be deleted; nothing was deleted")
    if done.freed is not None:
        say(describe_freed(done.freed))
    for id in done.kept or ():
        complain(f"{id} runs, and is kept: `awaken cancel {shell_word(id)}`, then do this again")
    return code
