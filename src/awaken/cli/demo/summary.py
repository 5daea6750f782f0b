"""The end of the demo: a summary read from the store, and what to try next."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from awaken.cli.demo.story import CASE, LOOKUPS, CaseFile, EffectFile
from awaken.cli.output import count, seconds
from awaken.cli.run_summary import RunSummary
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import ResumeAction, Ticket
from awaken.runtime import Runtime

NEXT = (
    ("awaken chat", "talk to a built-in agent; no key needed"),
    ("awaken demo --console", "the same shop as a page in the browser"),
    ("awaken threads", "what you said there is still known tomorrow"),
    ("awaken demo --json", "the same events as a program reads them"),
    ("examples/", "small programs to start from"),
    ("README.md", "your own agent in ten lines"),
)


async def print_closing(
    console: Console, runtime: Runtime, thread: str, books: EffectFile, *, killed: bool
) -> None:
    """Print what the demo has shown, and what to try next."""
    summary = RunSummary()
    async for event in runtime.events(thread, follow=False):
        summary.add(event)
    console.print()
    console.print(Text("What you saw", "bold"))
    tickets = (await runtime.list_tickets(TicketQuery(thread_id=thread))).items
    lines = [
        *_describe_run(summary, tickets),
        _describe_case(await runtime.state(thread, CASE)),
        _describe_crash(books, killed=killed),
    ]
    for line in lines:
        console.print(Text("  · ").append(line))
    console.print()
    console.print(Text("Try next", "bold"))
    rows = [(_adapt_command(command), what) for command, what in NEXT]
    width = max(len(command) for command, _ in rows) + 2
    for command, what in rows:
        console.print(Text("  ").append(f"{command:<{width}}", "cyan").append(what, "dim"))


def _adapt_command(command: str) -> str:
    """A command as it can be typed here: `awaken` may not be on the shell's path."""
    program, _, rest = command.partition(" ")
    if program != "awaken" or shutil.which(program):
        return command
    beside = os.path.relpath(Path(sys.executable).with_name(program))
    return f"{beside} {rest}" if Path(beside).is_file() else f"python -m awaken.cli {rest}"


def _describe_run(summary: RunSummary, tickets: Sequence[Ticket]) -> list[str]:
    lookups = [call for call in summary.calls if call.name in LOOKUPS]
    together, apart = max(c.duration_ms for c in lookups), sum(c.duration_ms for c in lookups)
    answer = next(ticket.decision for ticket in tickets if ticket.tool_name == "refund")
    denied = answer is not None and answer.action is ResumeAction.CANCEL
    return [
        f"{count(len(lookups), 'tool')} side by side: {seconds(together)} instead of "
        f"{seconds(apart)}",
        f"a refund that waited for an approval, and was {'denied' if denied else 'approved'}",
        f"a hand-over: support began, {summary.agent} finished, on one thread",
        f"{count(summary.events, 'event')} kept in the thread, each committed together with what "
        "it tells",
    ]


def _describe_case(case: CaseFile) -> str:
    facts = "".join(f"\n      {source:<8}{fact}" for source, fact in case.facts.items())
    cost = f"\n      {'cost':<8}{case.cost_cents} cents"
    return f"what the tools wrote to one state key, merged into one typed value:{facts}{cost}"


def _describe_crash(books: EffectFile, *, killed: bool) -> str:
    entries = books.entries()
    kept = "; ".join(f"{entry.what}, key {entry.key}" for entry in entries)
    if not killed:
        return f"one change to the world, noted before it was made: {kept}"
    times = "once" if len(entries) == 1 else f"{len(entries)} times"
    return (
        "a kill at the worst moment, and a new process that went on from the last commit; "
        f"it happened {times}:\n      {kept}"
    )
