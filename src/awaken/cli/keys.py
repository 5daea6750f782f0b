"""`awaken keys`: the keys that let clients use a server."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from awaken.cli.console import open_console, say
from awaken.cli.exits import Exit
from awaken.cli.options import json_value_option, print_json
from awaken.cli.tables import print_table
from awaken.server.roles import Role

KEYS_VARIABLE = "AWAKEN_KEYS"
DEFAULT_KEYS = "keys.toml"

keys_option = click.option(
    "--keys",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=DEFAULT_KEYS,
    envvar=KEYS_VARIABLE,
    help=f"The file of keys.  [env: {KEYS_VARIABLE}; default: {DEFAULT_KEYS}]",
)


@click.group(short_help="Make, list and revoke the keys of a server.")
def keys() -> None:
    """Make, list and revoke the keys that let clients use a server.

    \b
      awaken keys add --name web --scope acme --role invoke
      awaken keys list
      awaken keys revoke 3f9a52c0b1d7

    The file keeps a hash of each key. A server reads it again when it changes.
    """


@keys.command()
@click.option(
    "--role",
    "roles",
    type=click.Choice([role.value for role in Role]),
    multiple=True,
    required=True,
    help="What the key may do; may be repeated.",
)
@click.option("--name", metavar="NAME", help="Whom records name as the one who did something.")
@click.option("--scope", metavar="TENANT", default="", help="The tenant whose threads it sees.")
@click.option(
    "--agents", metavar="ID,ID", help="The only agents it may use.  [default: all of them]"
)
@keys_option
def add(
    roles: tuple[str, ...], name: str | None, scope: str, agents: str | None, file: Path
) -> Exit:
    """Make a key and print it. It is shown this once: the file keeps only a hash of it.

    \b
      awaken keys add --name web --scope acme --role invoke --agents support
    """
    from awaken.server.keys import add_key  # noqa: PLC0415 loads hashes that other commands do not need

    named = [agent.strip() for agent in agents.split(",")] if agents is not None else None
    key = add_key(file, roles=roles, name=name, scope=scope, agents=named)
    say(key)
    return Exit.DONE


@keys.command(name="list")
@keys_option
@json_value_option
def list_keys(file: Path, as_json: bool) -> Exit:
    """List the keys of a file, without their secrets."""
    from awaken.server.keys import read_keys  # noqa: PLC0415 as above

    known = read_keys(file).keys
    if as_json:
        shown = [
            {
                "id": id,
                "name": key.name,
                "scope": key.scope,
                "roles": key.roles,
                "agents": key.agents,
            }
            for id, key in known.items()
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
        for id, key in known.items()
    ]
    print_table(open_console(sys.stdout), ("ID", "NAME", "SCOPE", "ROLES", "AGENTS"), rows)
    return Exit.DONE


@keys.command()
@click.argument("id")
@keys_option
def revoke(id: str, file: Path) -> Exit:
    """Take a key out of a file. A server refuses it from its next request on."""
    from awaken.server.keys import revoke_key  # noqa: PLC0415 as above

    revoke_key(file, id)
    say(f"key {id} is revoked")
    return Exit.DONE
