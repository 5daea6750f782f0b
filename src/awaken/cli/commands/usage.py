"""`awaken usage`: what runs have used."""

from __future__ import annotations

import sys
from typing import get_args

import click

from awaken.cli.exit_codes import ExitCode
from awaken.cli.options import print_json, steers
from awaken.cli.output import open_console, print_table
from awaken.cli.store_view import StoreView, run_with_store_view
from awaken.core.search.usage import UsagePart, UsageRow

_PARTS: dict[str, UsagePart] = {part: part for part in get_args(UsagePart)}


def parse_parts(ctx: click.Context, param: click.Parameter, text: str) -> list[UsagePart]:
    """The parts that a text names, with commas between them.

    Raises:
        BadParameter: one of them is not known.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in _PARTS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(_PARTS)}")
    return [_PARTS[name] for name in names]


@click.command(short_help="Sum what runs have used: tokens and cost.")
@click.option(
    "--by",
    callback=parse_parts,
    metavar="PARTS",
    default="day",
    show_default=True,
    help="What to sum by, with commas: day, agent, model, user, scope.",
)
@click.option("--after", metavar="DAY", help="The first day, such as 2026-11-19.")
@click.option("--before", metavar="DAY", help="The day behind the last one.")
@click.option("--agent", metavar="ID", help="Only runs of this agent.")
@click.option("--model", metavar="NAME", help="Only runs that this model answered.")
@click.option("--user", metavar="ID", help="Only runs for this user.")
@click.option("--zone", metavar="NAME", help="The time zone of days; by default the index's.")
@steers
def usage(
    by: list[UsagePart],
    after: str | None,
    before: str | None,
    agent: str | None,
    model: str | None,
    user: str | None,
    zone: str | None,
    store: str | None,
    as_json: bool,
) -> ExitCode:
    """Sum what runs have used, each run once: those of delegates and tasks are runs, too.

    \b
      awaken usage
      awaken usage --by agent,model --after 2026-11-01
      awaken usage --by day,user --zone Europe/Vienna --json

    A run counts on the day it began, for the model that answered last.
    """

    async def work(store_view: StoreView) -> ExitCode:
        rows = await store_view.runtime.usage(
            by, agent=agent, model=model, user=user, after=after, before=before, zone=zone
        )
        if as_json:
            return print_json(rows)
        console = open_console(sys.stdout)
        if not rows:
            console.print("no runs")
            return ExitCode.DONE
        columns = [part.upper() for part in by]
        print_table(
            console,
            (*columns, "RUNS:", "FAILED:", "TOKENS IN:", "TOKENS OUT:", "COST:"),
            [_row(by, row) for row in rows],
        )
        return ExitCode.DONE

    return run_with_store_view(store, work)


def _row(by: list[UsagePart], row: UsageRow) -> tuple[str, ...]:
    cost = f"${row.cost:,.4f}" if row.cost or not row.unpriced else "unknown"
    return (
        *(str(getattr(row, part) or "") for part in by),
        f"{row.runs:,}",
        f"{row.failed:,}",
        f"{row.input_tokens:,}",
        f"{row.output_tokens:,}",
        cost,
    )
