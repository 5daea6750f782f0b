"""The command `awaken demo`, and the process that plays the story or resumes it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Literal

import click
from rich.text import Text

from awaken.cli.asyncio_main import Interrupts, run_to_exit
from awaken.cli.conversation import TerminalConversation
from awaken.cli.decider import Decider, RuleDecider
from awaken.cli.demo.story import PROMPT, EffectFile, EffectHooks, EffectRecord, story_agents
from awaken.cli.demo.summary import print_closing
from awaken.cli.demo.supervise import HOME_OPTION, SERVED_OPTION, run_demo, serve_demo
from awaken.cli.exit_codes import ExitCode, Mistake
from awaken.cli.options import json_option, open_decider, open_view, stdout_for_events, yes_option
from awaken.cli.output import has_browser, say
from awaken.cli.stdin_lines import InputInterrupted, StdinLines, is_tty
from awaken.cli.transcript import TurnPrinter
from awaken.cli.view import TurnView
from awaken.core.store.commits import CallPhase
from awaken.runtime import Runtime
from awaken.runtime.open_by_name import load

THREAD = "case-1042"
_OFFER = "[k: kill this process (pid {pid}) with SIGKILL, it comes back / Enter: go on] ›"


@click.command(short_help="Watch agents settle a case, and kill them in the middle.")
@yes_option
@json_option
@click.option("--fast", is_flag=True, help="Without the pauses that make it pleasant to watch.")
@click.option(
    "--console",
    "place",
    flag_value="console",
    help="In the browser; the address is printed, and opened if there is a display.",
)
@click.option("--terminal", "place", flag_value="terminal", help="In this terminal.")
@click.option("--no-open", is_flag=True, help="Print the address of the page, and open nothing.")
@click.option(HOME_OPTION, type=click.Path(path_type=Path), hidden=True)
@click.option(SERVED_OPTION, hidden=True)
def demo(
    yes: bool,
    as_json: bool,
    fast: bool,
    place: Literal["console", "terminal"] | None,
    no_open: bool,
    home: Path | None,
    served: str | None,
) -> ExitCode:
    """Watch agents settle a case: parallel tools, typed state, an approval, a hand-over, and a
    process that is killed in the middle and comes back.

    The model is scripted, everything else is real. The demo needs no key and no network, and keeps
    its threads in a temporary SQLite file. If you refuse the refund, the story ends differently.

    If there is a terminal and a browser, the demo is served as a page in the browser until Ctrl-C:
    answer the question that waits there, and kill the server with a button. Otherwise it plays in
    the terminal. Without a terminal, the refund is approved automatically, and the process kills
    itself.
    """
    if served is not None:
        load("awaken.cli.demo.served", "serve")(served)
        return ExitCode.DONE
    if home is None and place is None:
        place = "terminal" if yes or as_json or fast or not is_tty() else _choose_screen()
    if place == "console":
        if missing := _find_missing_parts():
            raise Mistake(missing)
        return serve_demo(opens=not no_open, speed=0.0 if fast else 1.0)
    if home is None:
        given = (("--yes", yes), ("--json", as_json), ("--fast", fast))
        return run_demo([name for name, is_set in given if is_set], as_json=as_json)
    out = sys.stdout
    with stdout_for_events(as_json):

        async def play(interrupts: Interrupts) -> ExitCode:
            player = Player(home, open_view(as_json, out), interrupts, yes=yes, as_json=as_json)
            return await player.play(0.0 if fast else 1.0)

        return run_to_exit(play)


def _choose_screen() -> Literal["console", "terminal"]:
    """The browser if there is one and the page can be served, else the terminal."""
    if not has_browser():
        return "terminal"
    if missing := _find_missing_parts():
        say(f"{missing}; here is the demo in the terminal")
        return "terminal"
    return "console"


def _find_missing_parts() -> str | None:
    """What the page needs and this installation does not have, if anything."""
    try:
        pages = load("awaken.server.console", "Pages")()
    except ModuleNotFoundError as error:
        return f"the page needs {error.name}: pip install 'awaken[server]'"
    return None if pages.is_there else "the page needs libraries that `make console` fetches (npm)"


class Player:
    """Plays the story in one process, from its beginning or from where the last process was
    killed."""

    def __init__(
        self, home: Path, view: TurnView, interrupts: Interrupts, *, yes: bool, as_json: bool
    ) -> None:
        self._home, self._view, self._interrupts = home, view, interrupts
        self._lines = StdinLines()
        self._books = EffectFile(home / "books.jsonl")
        self._can_ask = is_tty() and not as_json
        self._yes, self._as_json = yes, as_json
        self._is_again = False

    async def play(self, speed: float) -> ExitCode:
        """Run the story to its end."""
        agents = story_agents(
            speed, self._books, EffectHooks(self._offer_kill, self._on_effect_found)
        )
        async with Runtime(
            agents, store=f"sqlite:///{self._home / 'demo.db'}", recover=False
        ) as runtime:
            conversation = TerminalConversation(
                runtime=runtime,
                thread=THREAD,
                agent="support",
                decider=self._make_decider(),
                interrupts=self._interrupts,
                lines=self._lines,
            )
            left = await runtime.store.latest_run(THREAD)
            self._is_again = left is not None
            if left is not None:
                await self._show_stored_calls(runtime, left.run_id)
                code = await conversation.resume_run(left, self._view)
            else:
                self._print_introduction()
                code = await conversation.run_turn(PROMPT, self._view)
            if isinstance(self._view, TurnPrinter) and code is ExitCode.DONE:
                await print_closing(
                    self._view.console, runtime, THREAD, self._books, killed=self._is_again
                )
        return code

    def _make_decider(self) -> Decider:
        if self._can_ask and not self._yes:
            return open_decider(self._lines, lambda: self._view, yes=False)
        reason = (
            "--yes" if self._yes else "--json" if self._as_json else "there is no terminal to ask"
        )
        return RuleDecider(approve=True, reason=reason, say=self._view.note)

    def _print_introduction(self) -> None:
        if not isinstance(self._view, TurnPrinter):
            return
        console = self._view.console
        console.print(Text("awaken demo", "bold"))
        words = "Two agents, six tools, one approval, one crash. The model is scripted, the rest is"
        console.print(Text(f"{words} real.", "dim"))
        self._view.print_message("you", PROMPT)

    # -- the crash ----------------------------------------------------------------------------

    async def _offer_kill(self, tool: str, entry: EffectRecord) -> None:
        """Offer to kill this process now, when the side effect has happened and the call has not
        ended."""
        if self._is_again:
            return
        self._view.note(
            f"{tool} has just changed the world ({entry.what}) and has not answered yet: "
            "no worse moment to die"
        )
        if not self._can_ask:
            self._view.note(
                f"there is no terminal to ask, so process {os.getpid()} kills itself with SIGKILL"
            )
        elif not await self._ask_whether_to_kill():
            return
        os.kill(os.getpid(), signal.SIGKILL)

    async def _ask_whether_to_kill(self) -> bool:
        assert isinstance(self._view, TurnPrinter), "questions are asked in transcripts only"
        self._lines.discard_typed_input()
        self._view.print_question(_OFFER.format(pid=os.getpid()))
        try:
            answer = await self._lines.read_line()
        except (EOFError, InputInterrupted):
            self._view.break_line()
            return False
        return answer.strip().lower() in ("k", "kill")

    async def _show_stored_calls(self, runtime: Runtime, run_id: str) -> None:
        """Show which calls are stored and will not run again."""
        calls = await runtime.store.load_calls(run_id)
        done = [call.tool_name for call in calls if call.phase is CallPhase.SUCCEEDED]
        begun = [call.tool_name for call in calls if call.phase is CallPhase.INTENT]
        if done:
            self._view.note(f"kept, so not done again: {', '.join(done)}, and what was said")
        if begun:
            self._view.note(f"begun, with an unknown outcome: {', '.join(begun)}")

    def _on_effect_found(self, tool: str, entry: EffectRecord) -> None:
        self._view.note(
            f"{tool} finds in the books: {entry.what}. So it is not done again "
            f"(idempotency key {entry.key})"
        )
