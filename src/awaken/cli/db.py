"""`awaken db`: the tables of a store in Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import click

from awaken.cli.address import store_address
from awaken.cli.console import say
from awaken.cli.exits import Exit, Mistake
from awaken.cli.options import print_json, steers
from awaken.domain.secret import shown_address
from awaken.stores import postgres


@click.group(short_help="Bring the tables of a Postgres store up to date.")
def db() -> None:
    """Bring the tables of a store in Postgres up to date.

    \b
      awaken db migrate --dry-run --store postgresql://…
      awaken db migrate --store postgresql://…
    """


@db.command()
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@steers
def migrate(dry_run: bool, store: str | None, as_json: bool) -> Exit:
    """Make the tables of a store, or bring them up to date. Nodes may go on to run meanwhile.

    A node works with the tables of its own version and of the next one. So migrate first, then
    replace the nodes one by one.
    """
    address = store_address(store)
    if not is_postgres(address):
        raise Mistake(
            f"{shown_address(address)} needs no migrate: a file is brought up to date when it is "
            "opened; name a database with --store postgresql://…"
        )
    done = migrate_tables(address, dry_run=dry_run)
    if as_json:
        return print_json(done)
    for line in migration_lines(done, dry_run=dry_run):
        say(line)
    return Exit.DONE


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
