"""`awaken chat`: a conversation on one thread."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import click
from rich.console import Console

from awaken.cli.asyncio_main import Interrupts, run_to_exit
from awaken.cli.builtin_agent import build_builtin_agent
from awaken.cli.commands.resume import wait_recovered
from awaken.cli.conversation import TerminalConversation
from awaken.cli.exit_codes import ExitCode
from awaken.cli.options import open_decider, runs_agents, yes_option
from awaken.cli.output import call_words, open_console, terminal_line
from awaken.cli.stdin_lines import InputInterrupted, StdinLines, is_tty
from awaken.cli.store_address import WayBack, way_back
from awaken.cli.target import Target, load_target
from awaken.cli.transcript import TurnPrinter
from awaken.core.aio.owned_tasks import start_task
from awaken.core.message import Message, Role
from awaken.ids import UUID7

BUILT_IN = "awaken.cli.builtin_agent:build_builtin_agent"

HELP = """\
  /history   what was said in this thread so far
  /help      this
  /quit      leave (Ctrl-D does, too)
  Ctrl-C stops an answer; at the prompt, it leaves."""

_DEMO = """\
This is the built-in demo agent: it understands nothing, but its runtime is real.
Try “calculate 12 * (3 + 4)”, or “count words "the quick brown fox"”.
Your own agent: awaken chat module:agent"""
_LOCAL = """\
This is a small language model on this machine: no key, no network. It chats, and keeps to a JSON
schema, but it calls no tools and knows little. Another: awaken chat --model openai:gpt-5-mini"""
_WELCOMES = {"demo": _DEMO, "local": _LOCAL}


@click.command()
@click.argument("target", metavar="[MODULE:AGENT]", required=False)
@runs_agents
@yes_option
def chat(
    target: str | None,
    thread: str | None,
    agent: str | None,
    model: str | None,
    store: str | None,
    yes: bool,
) -> ExitCode:
    """Talk with an agent, turn by turn, on one thread.

    \b
      awaken chat
      awaken chat app:agent --thread case-7

    Without MODULE:AGENT, a small built-in agent answers; it needs no key. Type /help for a list of
    commands. The thread is kept; --thread continues it. Results of background tasks are shown
    between two turns.
    """
    found = (
        Target("the built-in agent", [build_builtin_agent()]) if not target else load_target(target)
    )

    async def talk(interrupts: Interrupts) -> ExitCode:
        back = way_back(target or BUILT_IN, store)
        lines, session = StdinLines(), ChatSession(open_console(sys.stdout), back)
        async with found.open(store, model) as runtime:
            conversation = TerminalConversation(
                runtime=runtime,
                thread=thread or UUID7.new(),
                agent=found.agent_id(agent),
                decider=open_decider(lines, lambda: session.transcript, yes=yes),
                interrupts=interrupts,
                lines=lines,
                back=back,
                includes_tasks=False,
            )
            session.print_welcome(
                conversation, "" if target else _WELCOMES.get(model or "demo", "")
            )
            code = await session.run(conversation)
            await wait_recovered(runtime)
            return code

    return run_to_exit(talk)


class ChatSession:
    """The interactive session: a prompt, the answers, a few commands."""

    def __init__(self, console: Console, back: WayBack | None) -> None:
        self.console = console
        self.transcript = TurnPrinter(console, back)
        self._back = back

    def print_welcome(self, conversation: TerminalConversation, words: str) -> None:
        agent, thread = terminal_line(conversation.agent or ""), terminal_line(conversation.thread)
        self._print(f"Talking with {agent} in thread {thread}. /help for help, /quit to leave.")
        if words:
            self._print(words)

    async def run(self, conversation: TerminalConversation) -> ExitCode:
        """Run one turn for each input line, until the user leaves."""
        while True:
            try:
                line = await self._read_line(conversation)
            except EOFError:
                self.console.print()
                return await self._finish(conversation)
            except InputInterrupted:
                self.console.print()
                return ExitCode.INTERRUPTED
            match line:
                case "" | None:
                    continue
                case "/quit":
                    return await self._finish(conversation)
                case "/help":
                    self._print(HELP)
                case "/history":
                    self._print_history(await conversation.runtime.messages(conversation.thread))
                case _ if line.startswith("/"):
                    self._print(f"{terminal_line(line)} is no command; /help lists them")
                case _:
                    self.transcript = TurnPrinter(self.console, self._back)
                    await conversation.run_turn(line, self.transcript)
                    # From now on the agent that spoke last answers: there may have been a
                    # hand-over.
                    conversation.agent = None

    async def _read_line(self, conversation: TerminalConversation) -> str | None:
        """Read the next line. If a background task reports first, show its report and return
        `None`."""
        conversation.interrupts.reset()
        self.console.print()
        self.console.print("you › ", style="bold", end="")
        line = await self._wait_for_line_or_report(conversation)
        if line is not None and not is_tty():
            self.console.print(terminal_line(line))  # piped input is not echoed by a terminal
        return line

    async def _wait_for_line_or_report(self, conversation: TerminalConversation) -> str | None:
        lines, interrupts = conversation.lines, conversation.interrupts
        if not self.transcript.summary.awaits_tasks:
            with interrupts.call_on_interrupt(lines.interrupt):
                return (await lines.read_line()).strip()
        line, report = start_task(lines.read_line()), start_task(conversation.wait_for_report())
        try:
            with interrupts.call_on_interrupt(line.cancel):
                await asyncio.wait((line, report), return_when=asyncio.FIRST_COMPLETED)
            if line.cancelled():
                raise InputInterrupted
            if line.done():
                return line.result().strip()
        finally:
            line.cancel()
            report.cancel()
            await asyncio.wait((line, report))
        self.console.print()
        if (asking := report.result()) is not None:
            with interrupts.call_on_interrupt(lines.interrupt):
                await conversation.ask_for_answers(asking, self.transcript)
            return None
        self.transcript = TurnPrinter(self.console, self._back)
        await conversation.resume_after_report(self.transcript)
        return None

    async def _finish(self, conversation: TerminalConversation) -> ExitCode:
        """Leave running background tasks to `awaken resume`. Without a terminal, wait for them: the
        input has ended, and no user chose to leave."""
        tasks = await conversation.tasks()
        if tasks is None:
            return ExitCode.DONE
        if is_tty():
            back = f"; to go on: {self._back.resume(conversation.thread)}" if self._back else ""
            self._print(f"background tasks are left: {await tasks.names()}{back}")
            return ExitCode.DONE
        self.transcript = TurnPrinter(self.console, self._back)
        return await conversation.wait_for_tasks(self.transcript)

    def _print_history(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.role in (Role.SYSTEM, Role.USER) and not message.is_visible_user():
                continue  # a message from the runtime to the model
            speaker = "you" if message.role is Role.USER else message.role.value
            if text := terminal_line(message.text()):
                self._print(f"{speaker:>9}  {text}")
            for call in message.tool_calls or ():
                self._print(f"{speaker:>9}  → {call_words(call.name, call.arguments)}")

    def _print(self, text: str) -> None:
        self.console.print(text, style="dim")
