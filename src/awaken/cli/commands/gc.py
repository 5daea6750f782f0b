"""`awaken gc`: deleting old threads."""

from __future__ import annotations

import re
import sys

import click
import msgspec
from rich.console import Console

from awaken.cli.exit_codes import ExitCode, Mistake
from awaken.cli.options import print_json, steers
from awaken.cli.output import ago, complain_unreadable, count, open_console, print_table, size
from awaken.cli.store_view import StoreView, run_with_store_view
from awaken.core.store.threads import ChildStrategy, DeleteResult, ThreadQuery
from awaken.core.thread import Thread
from awaken.core.value import Value
from awaken.stores.sqlite import Compacted, SqliteStore

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PAGE = 1_000


def parse_duration(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """Seconds from `30d`, `12h` or `90m`.

    Raises:
        BadParameter: the text is not a duration.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(
            f"{text!r} is no length of time: write a number and s, m, h, d or w, as in 30d"
        )
    return float(found[1]) * _UNITS[found[2]]


def parse_age(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Seconds from a duration, or `None` if the option was left out."""
    return None if text is None else parse_duration(ctx, param, text)


class GcOutput(Value, frozen=True, kw_only=True):
    """What `--json` prints: what was deleted, or would be, and the file's size before and after.
    `deeds` is how many lines of the audit were deleted."""

    freed: DeleteResult | None = None
    deeds: int | None = None
    would_free: tuple[Thread, ...] | None = None
    compacted: Compacted | None = None


@click.command(short_help="Delete old threads, and say what was freed.")
@click.option(
    "--older-than",
    callback=parse_duration,
    metavar="AGE",
    default="30d",
    show_default=True,
    help="Delete threads not changed for this long: 30d, 12h, 90m.",
)
@click.option("--thread", metavar="ID", help="Delete this thread instead, regardless of its age.")
@click.option(
    "--children",
    type=click.Choice([strategy.value for strategy in ChildStrategy]),
    default=ChildStrategy.REJECT.value,
    show_default=True,
    help="What to do with --thread if it has started others.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Delete runs of --thread even if they are open, unless a process owns them.",
)
@click.option(
    "--audit-older-than",
    "audit",
    callback=parse_age,
    metavar="AGE",
    help="Also delete from the audit of servers what is older. Without it, all of it is kept.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; delete nothing.")
@click.option("--vacuum", is_flag=True, help="Give the space back to the disk as well.")
@steers
def gc(
    older_than: float,
    thread: str | None,
    children: str,
    force: bool,
    audit: float | None,
    dry_run: bool,
    vacuum: bool,
    store: str | None,
    as_json: bool,
) -> ExitCode:
    """Delete old threads, with their runs, messages and events, and say what was freed.

    \b
      awaken gc --older-than 90d --dry-run
      awaken gc --older-than 90d --vacuum
      awaken gc --thread case-7 --children cascade
      awaken gc --thread case-7 --force
      awaken gc --older-than 90d --audit-older-than 365d

    A thread is kept if it is live in any process, if its run waits or is to be resumed, if a thread
    that it started is kept, or if it was started by a run that is not over.
    """

    async def work(store_view: StoreView) -> ExitCode:
        before_ms = store_view.now_ms() - int(older_than * 1_000)
        console = open_console(sys.stdout)
        if dry_run:
            found = (
                (await store_view.find_thread(thread),)
                if thread
                else await _find_old_threads(store_view, before_ms)
            )
            if as_json:
                return print_json(GcOutput(would_free=found))
            return _print_would_delete(console, found, store_view.now_ms())
        if thread:
            head = await store_view.find_thread(thread)
            strategy = ChildStrategy(children)
            freed = await store_view.runtime.delete_thread(head.id, children=strategy, force=force)
            swept = await store_view.runtime.sweep_blobs()
            freed = msgspec.structs.replace(
                freed, blobs=swept.blobs, bytes=freed.bytes + swept.bytes
            )
        else:
            freed = await store_view.runtime.prune(older_than=older_than)
        deeds = None
        if audit is not None:
            old = store_view.now_ms() - int(audit * 1_000)
            deeds = await store_view.store.access.delete_deeds(before_ms=old)
        compacted = await _compact(store_view) if vacuum else None
        if as_json:
            return print_json(GcOutput(freed=freed, deeds=deeds, compacted=compacted))
        console.print(describe_freed(freed))
        if deeds is not None:
            console.print(f"deleted {count(deeds, 'line')} of the audit")
        if compacted is not None:
            before, after = size(compacted.before), size(compacted.after)
            console.print(f"the file had {before} and has {after} now")
        return ExitCode.DONE

    return run_with_store_view(store, work)


async def _compact(store_view: StoreView) -> Compacted:
    """
    Raises:
        Mistake: the store cannot do that.
    """
    if not isinstance(store_view.store, SqliteStore):
        raise Mistake(f"{store_view.address} has nothing to vacuum: leave --vacuum out")
    return await store_view.store.compact()


async def _find_old_threads(store_view: StoreView, before_ms: int) -> tuple[Thread, ...]:
    """The threads that `prune` would delete, unless they are used meanwhile."""
    old: dict[str, Thread] = {}
    needed: set[str | None] = set()
    beneath: dict[str | None, list[str]] = {}
    open_runs: list[str] = []
    cursor: str | None = None
    while True:
        page = await store_view.runtime.list_threads(ThreadQuery(limit=_PAGE, cursor=cursor))
        complain_unreadable(page.unreadable)
        for thread in page.items:
            beneath.setdefault(thread.parent_thread_id, []).append(thread.id)
            if thread.open_run_id is not None:
                open_runs.append(thread.id)
            if thread.updated_at < before_ms and thread.open_run_id is None:
                old[thread.id] = thread
            else:
                needed.add(thread.parent_thread_id)
        if (cursor := page.cursor) is None:
            break
    for id in open_runs:  # the list grows during the loop
        open_runs.extend(beneath.get(id, ()))
    needed.update(open_runs)
    while kept := needed & old.keys():
        needed |= {old.pop(id).parent_thread_id for id in kept if id is not None}
    return tuple(old.values())


def _print_would_delete(console: Console, found: tuple[Thread, ...], now_ms: int) -> ExitCode:
    if found:
        rows = [(t.id, f"{t.message_count:,}", ago(now_ms, t.updated_at)) for t in found]
        print_table(console, ("THREAD", "MESSAGES:", "CHANGED"), rows)
    console.print(f"{count(len(found), 'thread')} would be deleted; nothing was deleted")
    return ExitCode.DONE


def describe_freed(freed: DeleteResult) -> str:
    """One line: how much was deleted."""
    if not freed.threads and not freed.blobs:
        return "nothing to delete"
    parts = [
        count(freed.threads, "thread"),
        count(freed.runs, "run"),
        count(freed.commits, "commit"),
        size(freed.bytes),
    ]
    if freed.blobs:
        parts.insert(3, count(freed.blobs, "blob"))
    return "deleted " + ", ".join(parts)
