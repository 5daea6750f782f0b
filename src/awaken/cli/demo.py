"""`awaken demo`: what the runtime does, in ten seconds."""

from __future__ import annotations

import sys

import click
from rich.text import Text

from awaken.cli.aio import run_to_exit
from awaken.cli.conversation import Conversation
from awaken.cli.decide import Decider, Unattended
from awaken.cli.exits import Exit
from awaken.cli.interrupt import Interrupts
from awaken.cli.lines import Lines, is_terminal
from awaken.cli.options import json_option, open_decider, open_view, stdout_for_events, yes_option
from awaken.cli.story import CASE, LOOKUPS, PROMPT, story_agents
from awaken.cli.tally import CallState, Tally
from awaken.cli.text import count, seconds
from awaken.cli.transcript import Transcript
from awaken.cli.view import View
from awaken.front import Runtime
from awaken.ids import UUID7

NEXT = (
    ("awaken chat", "talk to a built-in agent; no key needed"),
    ("awaken demo --json", "the same events as a program reads them"),
    ("examples/", "small programs to start from"),
    ("README.md", "your own agent in ten lines"),
)


@click.command(short_help="Watch two agents settle a case, in ten seconds.")
@yes_option
@json_option
@click.option("--fast", is_flag=True, help="Without the pauses that make it pleasant to watch.")
def demo(yes: bool, as_json: bool, fast: bool) -> Exit:
    """Watch two agents settle a case: parallel tools, typed state, an approval, a hand-over.

    The model is scripted, everything else is real. It needs no key and no network, and stores
    nothing. Say no to the refund and the story ends differently. Without a terminal it approves
    the refund by itself.
    """
    out = sys.stdout
    with stdout_for_events(as_json):

        async def play(interrupts: Interrupts) -> Exit:
            view, lines = open_view(as_json, out), Lines()
            async with Runtime(story_agents(0.0 if fast else 1.0)) as runtime:
                conversation = Conversation(
                    runtime=runtime,
                    thread=UUID7.new(),
                    agent="support",
                    decider=_decider(lines, view, yes=yes, as_json=as_json),
                    interrupts=interrupts,
                    lines=lines,
                )
                if isinstance(view, Transcript):
                    _open(view)
                code = await conversation.turn(PROMPT, view)
            if isinstance(view, Transcript) and code is Exit.DONE:
                _close(view)
            return code

        return run_to_exit(play)


def _decider(lines: Lines, view: View, *, yes: bool, as_json: bool) -> Decider:
    if is_terminal() and not as_json and not yes:
        return open_decider(lines, lambda: view, yes=False)
    why = "--yes" if yes else "--json" if as_json else "there is no terminal to ask"
    return Unattended(approve=True, why=why, say=view.note)


def _open(view: Transcript) -> None:
    view.console.print(Text("awaken demo", "bold"))
    view.console.print(
        Text("Two agents, six tools, one approval. The model is scripted, the rest is real.", "dim")
    )
    view.speaks("you")
    view.console.print(f"  {PROMPT}")


def _close(view: Transcript) -> None:
    """What was just shown, and what to try next."""
    console, tally = view.console, view.tally
    console.print()
    console.print(Text("What you saw", "bold"))
    for line in _seen(tally):
        console.print(Text("  · ").append(line))
    console.print()
    console.print(Text("Try next", "bold"))
    for command, what in NEXT:
        console.print(Text("  ").append(f"{command:<20}", "cyan").append(what, "dim"))


def _merged(tally: Tally) -> str:
    case = CASE.load(tally.state[CASE.name])
    facts = "".join(f"\n      {source:<8}{fact}" for source, fact in case.facts.items())
    return f"{facts}\n      {'cost':<8}{case.cost_cents} cents"


def _seen(tally: Tally) -> list[str]:
    lookups = [call for call in tally.calls if call.name in LOOKUPS]
    together, apart = max(c.took_ms for c in lookups), sum(c.took_ms for c in lookups)
    refund = next(call for call in tally.calls if call.name == "refund")
    verdict = "approved" if refund.state is CallState.DONE else "denied"
    return [
        f"{count(len(lookups), 'tool')} side by side: {seconds(together)} instead of "
        f"{seconds(apart)}",
        f"their writes to one state key, merged into one typed value:{_merged(tally)}",
        f"a refund that waited for an approval, and was {verdict}",
        f"a hand-over: support began, {tally.agent} finished, on one thread",
        f"{count(tally.events, 'event')} that told it all; {tally.durable:,} of them are kept "
        "in the thread, each committed together with what it tells",
    ]
