"""`awaken run`: one prompt, one answer."""

from __future__ import annotations

import sys

import click

from awaken.cli.asyncio_main import Interrupts, run_to_exit
from awaken.cli.commands.resume import wait_recovered
from awaken.cli.conversation import TerminalConversation
from awaken.cli.exit_codes import ExitCode
from awaken.cli.options import (
    json_option,
    open_decider,
    open_view,
    runs_agents,
    stdout_for_events,
    yes_option,
)
from awaken.cli.stdin_lines import StdinLines
from awaken.cli.store_address import way_back
from awaken.cli.target import load_target
from awaken.ids import UUID7


@click.command()
@click.argument("target", metavar="MODULE:AGENT")
@click.argument("prompt")
@runs_agents
@click.option("--queue", is_flag=True, help="Wait while the thread is busy, in any process.")
@yes_option
@json_option
def run(
    target: str,
    prompt: str,
    thread: str | None,
    agent: str | None,
    model: str | None,
    store: str | None,
    queue: bool,
    yes: bool,
    as_json: bool,
) -> ExitCode:
    """Ask one of your agents once, and watch it answer.

    MODULE:AGENT names an Agent, a list of Agents that work together (the first one is asked), or
    a function that returns a Runtime; MODULE may also be a path to a .py file.

    \b
      awaken run app:agent "Weather in Paris?"
      awaken run examples/shop.py:agents "Where is order 7?" --json

    The thread is kept; --thread continues it, also after a crash. The command asks on the terminal
    about calls that need an approval, and any other process may answer them with `awaken decide`.
    Without a terminal, and with --json, they are denied unless --yes is given.

    If the agent has started background tasks, the command waits until they have ended and the agent
    has answered to their results.

    The exit code is 0 if the agent finished, 1 if it failed, was blocked or stopped, 2 if the
    command makes no sense, 3 if a call still waits for an answer, 130 after Ctrl-C.
    """
    out = sys.stdout
    with stdout_for_events(as_json):
        found = load_target(target)

        async def ask(interrupts: Interrupts) -> ExitCode:
            back = way_back(target, store, new_thread=thread is None)
            view, lines = open_view(as_json, out, back), StdinLines()
            async with found.open(store, model) as runtime:
                conversation = TerminalConversation(
                    runtime=runtime,
                    thread=thread or UUID7.new(),
                    agent=found.agent_id(agent),
                    decider=open_decider(lines, lambda: view, yes=yes),
                    interrupts=interrupts,
                    lines=lines,
                    back=back,
                    when_busy="queue" if queue else "refuse",
                )
                code = await conversation.run_turn(prompt, view)
                await wait_recovered(runtime)
                return code

        return run_to_exit(ask)
