"""`awaken show`: all that the store has about a thread or a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click
from rich.console import Console
from rich.text import Text

from awaken.cli.children import (
    MOST_STARTED,
    StartedRun,
    agent_of,
    list_started_runs,
    name_of,
    parent_thread_of,
    task_title,
)
from awaken.cli.commands.decide import open_tickets
from awaken.cli.commands.runs import COLUMNS, run_row
from awaken.cli.exit_codes import ExitCode
from awaken.cli.options import print_json, steers
from awaken.cli.output import (
    LONGEST_FIELD,
    ago,
    call_words,
    complain,
    count,
    open_console,
    print_fields,
    print_table,
    result_words,
    seconds,
    terminal_line,
)
from awaken.cli.question import Question, line_to_answer, shell_word, visible_line
from awaken.cli.store_view import (
    StoreView,
    Subject,
    format_run_state,
    format_thread_state,
    run_with_store_view,
)
from awaken.cli.tolerant_reader import TolerantReader
from awaken.cli.transcript import TurnPrinter
from awaken.core.budget import Amount
from awaken.core.message import MessageRecord, Role
from awaken.core.run import RunRecord
from awaken.core.store.commits import CallEntry, CallPhase, call_key
from awaken.core.store.threads import RunQuery
from awaken.core.suspension import Ticket
from awaken.core.thread import Thread
from awaken.core.unreadable import UnreadableRow
from awaken.core.value import Value
from awaken.errors import UnreadableRecord
from awaken.ext.handoff.plugin import HANDOFF_TOOL
from awaken.ext.tasks.listing import BackgroundTask
from awaken.runtime.metrics_hooks import spending_in

MOST_RUNS = 20
_PHASES = {
    CallPhase.INTENT: ("→", "cyan", "under way: it may have begun, its outcome is not known yet"),
    CallPhase.SUSPENDED: ("?", "yellow", "waits for an answer"),
    CallPhase.SUCCEEDED: ("✓", "green", "done"),
    CallPhase.FAILED: ("✗", "red", "failed"),
    CallPhase.UNKNOWN: ("!", "bold yellow", "outcome unknown: it may have happened, check"),
    CallPhase.CANCELLED: ("✗", "yellow", "stopped, because its run was cancelled"),
}


class ShownThread(Value, frozen=True, kw_only=True):
    """What `--json` prints; `runs` are the thread's latest, or the one that was asked for, and
    `started` all runs beneath them. `unreadable` are the rows without which it is not complete."""

    thread: Thread
    runs: tuple[RunRecord, ...]
    started: tuple[RunRecord, ...]
    messages: tuple[MessageRecord, ...]
    tickets: tuple[Ticket, ...]
    calls: tuple[CallEntry, ...]
    unreadable: tuple[UnreadableRow, ...] = ()


@click.command(short_help="Show a thread or a run: what was said, done, and waits.")
@click.argument("id", metavar="THREAD|RUN")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="How many of the last messages to show; 0 for all.",
)
@steers
def show(id: str, limit: int, store: str | None, as_json: bool) -> ExitCode:
    """Show a thread or a run: its messages, its calls, the runs it has started, and what waits for
    an answer.

    \b
      awaken show case-7
      awaken show 0199f3a2 --limit 0
      awaken show case-7 --json | jq .tickets

    The calls are those of the thread's latest run, or of the run that was asked for. What cannot be
    read is left out and named, and the exit code is 1.
    """

    async def work(store_view: StoreView) -> ExitCode:
        subject = await store_view.find(id)
        shown, started = await _load_shown_thread(store_view, subject, limit)
        code = ExitCode.FAILED if shown.unreadable else ExitCode.DONE
        if as_json:
            print_json(shown)
            return code
        console = open_console(sys.stdout)
        resumable, now = await store_view.find_resumable(), store_view.now_ms()
        run = subject.run or _find_only_task(shown)
        if run is None:
            _print_thread(console, shown, resumable, now)
        else:
            _print_run(console, run, await _describe_spending(store_view, run), resumable, now)
        _print_messages(console, shown)
        _print_tickets(console, subject, shown.tickets, now)
        _print_calls(console, shown)
        _print_started(console, started, resumable, now)
        for row in shown.unreadable:
            complain(f"{row.name} cannot be read ({row.reason}): see `awaken db check`")
        return code

    return run_with_store_view(store, work)


# -- what there is ------------------------------------------------------------------------------


async def _load_shown_thread(
    store_view: StoreView, subject: Subject, limit: int
) -> tuple[ShownThread, Sequence[StartedRun]]:
    thread, run = subject.thread, subject.run
    latest = run.run_id if run is not None else thread.open_run_id or thread.latest_run_id
    reader = TolerantReader(store_view.store, thread)
    runs: tuple[RunRecord, ...]
    if run is not None:
        runs, messages = (run,), (await _load_run_messages(reader, run))[-limit:]
    else:
        page = await store_view.runtime.list_runs(RunQuery(thread_id=thread.id, limit=MOST_RUNS))
        reader.add(page.unreadable)
        runs, messages = page.items, await reader.last_messages(limit)
    started = await list_started_runs(store_view.store, [run.run_id for run in reversed(runs)])
    tickets = await open_tickets(store_view, subject)
    reader.add(tickets.unreadable)
    calls = await reader.calls(latest) if latest is not None else ()
    await reader.check_thread()
    shown = ShownThread(
        thread=thread,
        runs=runs,
        started=tuple(run for _, run in started),
        messages=messages,
        tickets=tickets.items,
        calls=calls,
        unreadable=reader.rows,
    )
    return shown, started


async def _load_run_messages(reader: TolerantReader, run: RunRecord) -> tuple[MessageRecord, ...]:
    """The input and output messages of a run."""
    asked = run.request.input_message_ids if run.request is not None else ()
    wrote = run.output.range if run.output is not None else None
    if wrote is None:
        wrote = run.own_input
    if wrote is None:
        return ()
    after = max(0, wrote.from_seq - 1 - len(asked))
    records = await reader.messages(after, wrote.to_seq)
    return tuple(
        record
        for record in records
        if record.produced_by_run_id == run.run_id or record.message_id in asked
    )


# -- for people ---------------------------------------------------------------------------------


def _print_thread(
    console: Console, shown: ShownThread, resumable: frozenset[str], now_ms: int
) -> None:
    thread = shown.thread
    holds = f"{count(thread.message_count, 'message')}, {count(thread.event_count, 'event')}"
    forked = f"{thread.forked_from} at event {thread.forked_at}" if thread.forked_from else ""
    console.print(Text(terminal_line(f"thread {thread.id}"), "bold"))
    fields = (
        ("state", format_thread_state(thread, resumable)),
        ("holds", holds),
        ("changed", f"{ago(now_ms, thread.updated_at)}, begun {ago(now_ms, thread.created_at)}"),
        ("started by", thread.parent_thread_id or ""),
        ("forked from", forked),
    )
    print_fields(console, fields)
    if shown.runs:
        console.print()
        print_table(console, COLUMNS[:-1], [run_row(r, resumable, now_ms)[:-1] for r in shown.runs])
    if len(shown.runs) == MOST_RUNS:
        words = f"there may be more: awaken runs --thread {shell_word(thread.id)}"
        console.print(Text(words, "dim"))


def _find_only_task(shown: ShownThread) -> RunRecord | None:
    """The task, if it is the only run of its thread; else `None`."""
    return shown.runs[0] if len(shown.runs) == 1 and shown.runs[0].is_task else None


async def _describe_spending(store_view: StoreView, run: RunRecord) -> str:
    """What a run with a budget has used, in words."""
    try:
        spent = spending_in(await store_view.store.load_run_state(run.run_id)).spent
    except UnreadableRecord:
        return ""
    if spent == Amount():
        return ""
    money = f", {spent.money:,.4g} in money" if spent.money else ""
    took = seconds(round(spent.seconds * 1_000))
    steps = count(spent.steps, "step")
    return f"{spent.tokens:,} tokens{money}, {steps} and {took}, with all it started"


def _print_run(
    console: Console, run: RunRecord, spent: str, resumable: frozenset[str], now_ms: int
) -> None:
    console.print(Text(f"run {run.run_id}", "bold"))
    fields = (
        ("thread", run.thread_id),
        ("task", task_title(BackgroundTask.of(run)) if run.is_task else ""),
        ("agent", agent_of(run)),
        ("state", format_run_state(run, resumable)),
        ("took", f"{count(run.steps, 'step')}, {run.input_tokens + run.output_tokens:,} tokens"),
        ("cost", f"{run.cost:,.4g}" if run.cost is not None else ""),
        ("spent", spent),
        ("begun", ago(now_ms, run.created_at * 1_000)),
        ("ended", ago(now_ms, run.finished_at * 1_000) if run.finished_at else ""),
        ("started by", _describe_parent(run)),
        ("changed", _describe_agent_changes(run)),
        ("result", run.final_output or "" if run.is_task else ""),
    )
    print_fields(console, fields)


def _describe_parent(run: RunRecord) -> str:
    thread = parent_thread_of(run)
    return f"run {run.parent_run_id} of thread {thread}" if thread else run.parent_run_id or ""


def _describe_agent_changes(run: RunRecord) -> str:
    if not run.agent_changes:
        return ""
    return f"its agent, before it went on: {', '.join(run.agent_changes)}"


def _print_messages(console: Console, shown: ShownThread) -> None:
    speakers = {run.run_id: run.agent_id for run in shown.runs}
    names: dict[str, str] = {}
    transcript = TurnPrinter(console)
    if shown.messages and shown.messages[0].seq > 1 and len(shown.runs) != 1:
        console.print(Text(f"\n… {shown.messages[0].seq - 1:,} messages before", "dim"))
    for record in shown.messages:
        _print_message(transcript, record, speakers, names)


def _print_message(
    transcript: TurnPrinter, record: MessageRecord, speakers: dict[str, str], names: dict[str, str]
) -> None:
    """Print one message, and add its speaker and calls to `speakers` and `names`."""
    message, run_id = record.message, record.produced_by_run_id or ""
    text = message.text()
    match message.role:
        case Role.USER if message.is_visible_user():
            transcript.print_message("you", text)
        case Role.ASSISTANT:
            speaker = speakers.get(run_id, "assistant")
            transcript.print_message(speaker, text)
            for call in message.tool_calls or ():
                names[call.id] = call.name
                transcript.print_remark("→", call_words(call.name, call.arguments), "cyan")
                if call.name == HANDOFF_TOOL and isinstance(call.arguments, Mapping):
                    speakers[run_id] = str(call.arguments.get("agent"))
        case Role.TOOL:
            name = names.get(message.tool_call_id or "", "a tool")
            transcript.print_remark("←", f"{terminal_line(name)}: {result_words(text)}")
        case _:
            pass  # messages from the runtime to the model are not part of the conversation


def _print_tickets(
    console: Console, subject: Subject, tickets: Sequence[Ticket], now_ms: int
) -> None:
    if not tickets:
        return
    console.print(Text("\nwaits for an answer", "bold yellow"))
    for ticket in tickets:
        call = Question(ticket.tool_name, ticket.arguments)
        asks = visible_line(ticket.message or ticket.reason or "")
        until = ago(now_ms, ticket.expires_at) if ticket.expires_at is not None else ""
        console.print(f"  ? {call.words}")
        fields = (
            ("  asks", asks),
            ("  ticket", f"{ticket.key} (call {ticket.call_id})"),
            ("  digest", ticket.digest),
            ("  asked", ago(now_ms, ticket.asked_at)),
            ("  expires", until),
        )
        print_fields(console, fields)
        is_cut = len(asks) > LONGEST_FIELD
        console.print(f"  {line_to_answer(subject.id, ticket, is_cut=is_cut)}")


def _print_calls(console: Console, shown: ShownThread) -> None:
    if not shown.calls:
        return
    # The record of a call that waited before it began has no arguments.
    asked = {
        call_key(record.message_id, index): call.arguments
        for record in shown.messages
        for index, call in enumerate(record.message.tool_calls or ())
    }
    console.print(Text("\ncalls", "bold"))
    for call in shown.calls:
        mark, style, words = _PHASES[call.phase]
        arguments = call.arguments if call.arguments is not None else asked.get(call.key)
        line = Text("  ").append(f"{mark} ", style)
        line.append(call_words(call.tool_name, arguments, 100)).append(f"  {words}", "dim")
        console.print(line)
        if call.phase in (CallPhase.UNKNOWN, CallPhase.INTENT):
            console.print(Text(f"      idempotency key {call.key}", "dim"))


def _print_started(
    console: Console, started: Sequence[StartedRun], resumable: frozenset[str], now_ms: int
) -> None:
    if not started:
        return
    console.print()
    rows = [
        (
            Text("  " * (level - 1) + terminal_line(name_of(run))),
            format_run_state(run, resumable),
            ago(now_ms, run.created_at * 1_000),
            run.run_id,
        )
        for level, run in started
    ]
    print_table(console, ("STARTED", "STATE", "CREATED", "RUN"), rows)
    if len(started) == MOST_STARTED:
        console.print(Text("there may be more", "dim"))
