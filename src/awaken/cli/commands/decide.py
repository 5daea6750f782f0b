"""`awaken decide`: answer a waiting call, in whichever process its run is, or in none."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click
import msgspec
from rich.console import Console
from rich.text import Text

from awaken.cli.decider import TerminalDecider, build_approval, parse_value, user_name
from awaken.cli.exit_codes import ExitCode, Mistake
from awaken.cli.options import print_json, steers
from awaken.cli.output import ago, call_words, complain_unreadable, open_console, terminal_line
from awaken.cli.question import Question, line_to_answer, shell_word, visible_line, wants_value
from awaken.cli.stdin_lines import InputInterrupted, StdinLines, is_tty
from awaken.cli.store_view import StoreView, Subject, run_with_store_view
from awaken.cli.transcript import TurnPrinter
from awaken.codec import Json
from awaken.core.run import RunWaitingTicket
from awaken.core.store.threads import Page, TicketQuery
from awaken.core.suspension import ResumeAction, Ticket, TicketStatus, ToolCallResume
from awaken.core.value import Value
from awaken.ids import UUID7

_YES, _NO = ("yes", "y"), ("no", "n")


class DecideOutput(Value, frozen=True, kw_only=True):
    """What `--json` prints: the ticket as it is now, and whether a process runs its run."""

    ticket: Ticket
    live: bool


@click.command()
@click.argument("id", metavar="THREAD|RUN")
@click.argument("words", metavar="[TICKET] [yes|no]", nargs=-1)
@click.option("--edit", metavar="JSON", help="Yes, with these arguments instead.")
@click.option("--value", metavar="JSON", help="Yes, and this is the answer; plain text will do.")
@click.option("--reason", metavar="TEXT", help="Why; the model is told why not.")
@click.option("--digest", metavar="DIGEST", help="The digest of the question that you have seen.")
@click.option("--by", metavar="NAME", help="Who decides.  [default: the user of this machine]")
@steers
def decide(
    id: str,
    words: tuple[str, ...],
    edit: str | None,
    value: str | None,
    reason: str | None,
    digest: str | None,
    by: str | None,
    store: str | None,
    as_json: bool,
) -> ExitCode:
    """Answer a call that waits for a person.

    \b
      awaken decide case-7
      awaken decide case-7 no --reason "over the limit"
      awaken decide case-7 KEY yes
      awaken decide case-7 KEY --edit '{"order": 1042, "euros": 12}'
      awaken decide case-7 --value '{"colour": "blue"}' --digest DIGEST

    Without yes or no, on a terminal, the command shows the question and asks. Otherwise a yes,
    --edit and --value must name the question that you have seen: TICKET is its key, or --digest its
    digest; `awaken show` prints both. If that question was answered, replaced or withdrawn
    meanwhile, the answer is refused and nothing changes. A no may also name a call's id, or nothing
    if only one call waits.

    A live run goes on at once, in its own process. Otherwise the answer is stored until `awaken
    resume` resumes the run.
    """
    request = _parse_request(words, edit, value, reason, digest, by or user_name())

    async def work(store_view: StoreView) -> ExitCode:
        subject = await store_view.find(id)
        ticket = await _find_ticket(store_view, subject, request)
        console = open_console(sys.stdout)
        if not as_json:
            _print_question(console, ticket, store_view.now_ms(), whole=request.verdict is not None)
        if request.verdict is None and not as_json:
            console.print(Text(f"  {line_to_answer(subject.id, ticket)}", "dim"))
        answer = await _build_answer(request, ticket, console, ask=is_tty() and not as_json)
        if answer is None:
            console.print(Text("not answered", "dim"))
            return ExitCode.SUSPENDED
        await store_view.runtime.decide(ticket.thread_id, {ticket.key: answer}, by=request.by)
        live = ticket.run_id not in await store_view.find_resumable()
        if as_json:
            return print_json(DecideOutput(ticket=await _reload(store_view, ticket), live=live))
        _print_decision(console, subject, answer, request.by, live=live)
        return ExitCode.DONE

    return run_with_store_view(store, work)


# -- the arguments ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DecideRequest:
    """The decision on the command line; `verdict` is `None` if it says neither yes nor no."""

    target: str | None
    verdict: bool | None
    edit: Json
    value: Json
    has_value: bool
    reason: str | None
    digest: str | None
    by: str


def _parse_request(
    words: tuple[str, ...],
    edit: str | None,
    value: str | None,
    reason: str | None,
    digest: str | None,
    by: str,
) -> DecideRequest:
    """
    Raises:
        Mistake: the arguments contradict each other.
    """
    *rest, last = words or ("",)
    verdict: bool | None = None
    if last.lower() in _YES + _NO:
        verdict = last.lower() in _YES
    elif last:
        rest.append(last)
    if len(rest) > 1:
        raise Mistake(f"{rest[-1]!r} is neither yes nor no; write [TICKET] yes or [TICKET] no")
    if edit is not None and value is not None:
        raise Mistake("give either --edit, for other arguments, or --value, for the answer itself")
    if verdict is False and (edit is not None or value is not None):
        raise Mistake("no leaves nothing to edit and no value to give: leave those options out")
    arguments = None if edit is None else parse_value(edit)
    if edit is not None and not isinstance(arguments, dict):
        raise Mistake(f"--edit takes all arguments as a JSON object, not {terminal_line(edit)}")
    return DecideRequest(
        target=rest[0] if rest else None,
        verdict=True if edit is not None or value is not None else verdict,
        edit=arguments,
        value=None if value is None else parse_value(value),
        has_value=value is not None,
        reason=reason,
        digest=digest,
        by=by,
    )


async def _find_ticket(store_view: StoreView, subject: Subject, request: DecideRequest) -> Ticket:
    """The open ticket that the command line names.

    Raises:
        Mistake: there is none, several are possible, or a yes could answer another question.
    """
    target, digest = request.target, request.digest
    page = await open_tickets(store_view, subject)
    complain_unreadable(page.unreadable)
    tickets = page.items
    if not tickets:
        raise Mistake(f"nothing in {subject.words} waits for an answer; `awaken show` tells more")
    found = [
        ticket
        for ticket in tickets
        if (target is None or ticket.answers_to(target)) and digest in (None, ticket.digest)
    ]
    waiting = "; ".join(
        f"{terminal_line(t.key)}: {call_words(t.tool_name, t.arguments, 80)}" for t in tickets
    )
    if not found:
        named = f"call {target!r}" if digest is None else f"question of digest {digest!r}"
        raise Mistake(f"no {named} waits in {subject.words}; these do: {waiting}")
    if len(found) > 1:
        raise Mistake(f"several calls wait in {subject.words}, say which by its key: {waiting}")
    (ticket,) = found
    if request.verdict and digest is None and target != ticket.key:
        raise Mistake(
            "ids of calls may come again with another question: name the one that was seen by its "
            f"key, or give its --digest; in {subject.words} waits {waiting}"
        )
    return ticket


async def open_tickets(store_view: StoreView, subject: Subject) -> Page[Ticket]:
    """The open tickets, oldest first."""
    run = subject.run.run_id if subject.run is not None else None
    query = TicketQuery(thread_id=subject.thread.id, run_id=run, status=TicketStatus.OPEN)
    return await store_view.runtime.list_tickets(query)


# -- the answer ---------------------------------------------------------------------------------


async def _build_answer(
    request: DecideRequest, ticket: Ticket, console: Console, *, ask: bool
) -> ToolCallResume | None:
    """Build the answer to the question that was shown. Returns `None` if the approver gave none."""
    verdict = request.verdict
    id, digest, reason = UUID7.new(), ticket.digest, request.reason
    if verdict is None:
        if not ask:
            raise Mistake("say yes or no, or give --edit or --value")
        return await _ask_approver(ticket, console, reason)
    if not verdict:
        return ToolCallResume.deny(reason, digest=digest, id=id)
    if request.edit is not None:
        return ToolCallResume.edit(request.edit, reason=reason, digest=digest, id=id)
    if request.has_value:
        return ToolCallResume.approve(request.value, reason=reason, digest=digest, id=id)
    if wants_value(ticket):
        raise Mistake(f"{ticket.tool_name} waits for a value: give it with --value")
    return _bind_to_question(build_approval(ticket), digest, reason)


async def _ask_approver(
    ticket: Ticket, console: Console, reason: str | None
) -> ToolCallResume | None:
    transcript = TurnPrinter(console)
    waiting_ticket = RunWaitingTicket.of(ticket)
    try:
        answer = await TerminalDecider(StdinLines(), lambda: transcript, yes=False).decide(
            waiting_ticket
        )
    except InputInterrupted:
        return None
    if answer is None:
        return None
    return _bind_to_question(answer, ticket.digest, reason)


def _bind_to_question(answer: ToolCallResume, digest: str, reason: str | None) -> ToolCallResume:
    """Bind an answer to one question by its digest."""
    return msgspec.structs.replace(
        answer, decision_id=UUID7.new(), digest=digest, reason=answer.reason or reason
    )


async def _reload(store_view: StoreView, ticket: Ticket) -> Ticket:
    query = TicketQuery(thread_id=ticket.thread_id, run_id=ticket.run_id, limit=1_000)
    page = await store_view.runtime.list_tickets(query)
    return next((now for now in page.items if now.key == ticket.key), ticket)


# -- the output ---------------------------------------------------------------------------------


def _print_question(console: Console, ticket: Ticket, now_ms: int, *, whole: bool) -> None:
    """Show the call to decide on: the whole of it, unless the approver is asked next and can ask
    for more."""
    call = Question(ticket.tool_name, ticket.arguments)
    console.print(Text(call.whole if whole else call.words, "bold"))
    if ticket.message:
        console.print(f"  {visible_line(ticket.message)}")
    until = "" if ticket.expires_at is None else f", expires {ago(now_ms, ticket.expires_at)}"
    console.print(
        Text(f"  asked {ago(now_ms, ticket.asked_at)}{until} · digest {ticket.digest}", "dim")
    )


def _print_decision(
    console: Console, subject: Subject, answer: ToolCallResume, by: str, *, live: bool
) -> None:
    words = "approved" if answer.action is ResumeAction.RESUME else "denied"
    if answer.mode is not None:
        words += " with other arguments"
    console.print(Text(f"{words} by {terminal_line(by)}", "green"))
    if live:
        console.print("the run goes on in its process")
    else:
        console.print("no process runs it now; this resumes it:")
        console.print(f"  awaken resume MODULE:AGENT {shell_word(subject.id)}")
