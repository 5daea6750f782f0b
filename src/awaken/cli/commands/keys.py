"""`awaken keys`: the keys that let clients use a server."""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from awaken.cli.exit_codes import ExitCode, Mistake
from awaken.cli.options import json_value_option, print_json
from awaken.cli.output import (
    complain_unreadable,
    open_console,
    print_table,
    say,
    silence_unreadable,
)
from awaken.cli.store_address import resolve_existing_store, store_address
from awaken.core.access import KeyEntry, KeyRole
from awaken.core.access_store import Access
from awaken.core.budget import Budget
from awaken.core.store.threads import Page
from awaken.runtime.open_by_name import open_store
from awaken.server.keys import (
    IN_STORE,
    KeyOptions,
    add_key,
    add_to_store,
    read_keys,
    revoke_in_store,
    revoke_key,
)

KEYS_VARIABLE = "AWAKEN_KEYS"
DEFAULT_KEYS = "keys.toml"
T = TypeVar("T")


class _KeyLocation(msgspec.Struct, frozen=True):
    """The file that holds the keys or, if `file` is `None`, the address of the store that does."""

    file: Path | None
    store: str | None = None

    def use_store(self, work: Callable[[Access], Awaitable[T]], *, creates: bool = False) -> T:
        address = store_address(self.store) if creates else resolve_existing_store(self.store)
        if address.startswith("memory:"):
            raise Mistake(f"{address} is gone when this command ends: name a store that stays")

        async def main() -> T:
            store = open_store(address)
            try:
                await store.open()
                return await work(store.access)
            finally:
                await store.close()

        with silence_unreadable():
            return asyncio.run(main())


def _parse_location(keys: str | None, store: str | None) -> _KeyLocation:
    """
    Raises:
        Mistake: both a file and a store are named.
    """
    if keys is None and store is None:
        keys = os.environ.get(KEYS_VARIABLE) or DEFAULT_KEYS
    if keys is None or keys == IN_STORE:
        return _KeyLocation(None, store)
    if store is not None:
        raise Mistake("name either a file with --keys, or a store with --store")
    return _KeyLocation(Path(keys))


keys_option = click.option(
    "--keys",
    "keys",
    metavar="FILE",
    help="The file of keys, or the word `store` for those in the store.  "
    f"[env: {KEYS_VARIABLE}; default: {DEFAULT_KEYS}]",
)
store_option = click.option(
    "--store", metavar="ADDRESS", help="The store that has the keys, in place of a file."
)


@click.group(short_help="Make, list and revoke the keys of a server.")
def keys() -> None:
    """Make, list and revoke the keys that let clients use a server.

    \b
      awaken keys add --name web --scope acme --role invoke
      awaken keys list
      awaken keys revoke 3f9a52c0b1d7
      awaken keys add --role admin --store postgresql://…

    Keys are in a file, or in the store (`awaken serve --keys store`), where all its servers find
    them. What is kept of a key is a hash. A change holds from the next request on.
    """


def parse_budget(ctx: click.Context, param: click.Parameter, text: str | None) -> Budget | None:
    """A budget from `tokens=50000,money=0.5`.

    Raises:
        BadParameter: the text is not a budget.
    """
    if text is None:
        return None
    try:
        return msgspec.convert(tomllib.loads(f"budget = {{{text}}}")["budget"], Budget)
    except ValueError as error:  # msgspec's and tomllib's errors are values' errors
        raise click.BadParameter(
            f"{text!r} is no budget: write it as in tokens=50000,money=0.5 ({error})"
        ) from error


@keys.command()
@click.option(
    "--role",
    "roles",
    type=click.Choice([role.value for role in KeyRole]),
    multiple=True,
    required=True,
    help="What the key may do; may be repeated.",
)
@click.option("--name", metavar="NAME", help="Whom records name as the one who did something.")
@click.option("--scope", metavar="TENANT", default="", help="The tenant whose threads it sees.")
@click.option(
    "--agents", metavar="ID,ID", help="The only agents it may use.  [default: all of them]"
)
@click.option("--rate", type=float, help="Requests a second that it may make.")
@click.option("--burst", type=int, help="Requests that it may make at once.")
@click.option(
    "--budget",
    metavar="NAME=N,…",
    callback=parse_budget,
    help="The most that one of its runs may use, as in tokens=50000,money=0.5.",
)
@keys_option
@store_option
def add(
    roles: tuple[str, ...],
    name: str | None,
    scope: str,
    agents: str | None,
    rate: float | None,
    burst: int | None,
    budget: Budget | None,
    keys: str | None,
    store: str | None,
) -> ExitCode:
    """Make a key and print it. It is shown this once: what is kept is a hash of it.

    \b
      awaken keys add --name web --scope acme --role invoke --agents support
    """
    fields: KeyOptions = {
        "roles": roles,
        "name": name,
        "scope": scope,
        "agents": [agent.strip() for agent in agents.split(",")] if agents is not None else None,
        "rate": rate,
        "burst": burst,
        "budget": budget,
    }
    location = _parse_location(keys, store)
    if location.file is not None:
        key = add_key(location.file, **fields)
    else:
        key = location.use_store(lambda access: add_to_store(access, **fields), creates=True)
    say(key)
    return ExitCode.DONE


@keys.command(name="list")
@keys_option
@store_option
@json_value_option
def list_keys(keys: str | None, store: str | None, as_json: bool) -> ExitCode:
    """List keys, without their secrets."""
    location = _parse_location(keys, store)
    page: Page[tuple[str, KeyEntry]]
    if location.file is not None:
        page = Page(items=tuple(read_keys(location.file).keys.items()))
    else:
        page = location.use_store(lambda access: access.list_keys())
    complain_unreadable(page.unreadable)
    if as_json:
        shown = [
            {
                "id": id,
                "name": key.name,
                "scope": key.scope,
                "roles": key.roles,
                "agents": key.agents,
            }
            for id, key in page
        ]
        return print_json(shown)
    rows = [
        (
            id,
            key.name or "",
            key.scope,
            ", ".join(key.roles),
            "all" if key.agents is None else ", ".join(key.agents),
        )
        for id, key in page
    ]
    print_table(open_console(sys.stdout), ("ID", "NAME", "SCOPE", "ROLES", "AGENTS"), rows)
    return ExitCode.DONE


@keys.command()
@click.argument("id")
@keys_option
@store_option
def revoke(id: str, keys: str | None, store: str | None) -> ExitCode:
    """Take a key back. Servers refuse it from its next request on, and end its streams."""
    location = _parse_location(keys, store)
    if location.file is not None:
        revoke_key(location.file, id)
    else:
        location.use_store(lambda access: revoke_in_store(access, id))
    say(f"key {id} is revoked")
    return ExitCode.DONE
