"""Deciders answer waiting calls: a person at the terminal, or a fixed rule."""

from __future__ import annotations

import asyncio
import getpass
import os
import re
from collections.abc import Callable
from typing import Protocol

import msgspec

from awaken.cli.output import call_words
from awaken.cli.question import Question, asks_outcome, wants_value
from awaken.cli.stdin_lines import InputInterrupted, StdinLines
from awaken.cli.transcript import TurnPrinter
from awaken.codec import Json, loads
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import AskedCall, ResumeAction, ToolCallResume, ToolCallResumeMode

SHOW = "show"
NO_APPROVER_REASON = "no approver was there"

_REFUSAL = re.compile(r"(?:n[\s,:;-]+|no[,:;-]\s*)(?P<reason>.+)", re.IGNORECASE)
_HALF_YES = re.compile(r"y(es)?\b", re.IGNORECASE)


class Decider(Protocol):
    """Answers waiting calls; `by` names the approver."""

    by: str

    async def decide(self, ticket: RunWaitingTicket) -> ToolCallResume | None:
        """The answer, or `None` to leave the call waiting.

        Raises:
            InputInterrupted: the question was withdrawn.
        """
        ...


def user_name() -> str:
    """The name of the user, according to the operating system."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user id without a name
        return f"uid {os.getuid()}"


def build_approval(ticket: AskedCall) -> ToolCallResume:
    """Build the answer that approves a call with its own arguments."""
    if ticket.answer_mode is ToolCallResumeMode.PASS_DECISION_TO_TOOL:
        return ToolCallResume.approve(ticket.arguments)
    return ToolCallResume.approve()


class RuleDecider:
    """Approves every call, or denies every call, and says so each time. It leaves a call that needs
    a value waiting."""

    def __init__(self, *, approve: bool, reason: str, say: Callable[[str], None]) -> None:
        self.by = f"nobody ({reason})"
        self._approve, self._reason, self._say = approve, reason, say

    async def decide(self, ticket: RunWaitingTicket) -> ToolCallResume | None:
        words = call_words(ticket.tool_name, ticket.arguments)
        if asks_outcome(ticket):
            self._say(f"it is unknown whether {words} took effect: the run waits")
            return None
        if wants_value(ticket):
            self._say(f"{words} wants a value, and there is no terminal to ask: the run waits")
            return None
        if self._approve:
            self._say(f"{words} was approved automatically ({self._reason})")
            return build_approval(ticket)
        self._say(f"{words} was denied ({self._reason})")
        return ToolCallResume.deny(NO_APPROVER_REASON)


class TerminalDecider:
    """Asks on the terminal. At the end of input, it leaves the call waiting."""

    def __init__(
        self, lines: StdinLines, transcript: Callable[[], TurnPrinter], *, yes: bool
    ) -> None:
        self.by = user_name()
        self._lines, self._transcript, self._yes = lines, transcript, yes

    async def decide(self, ticket: RunWaitingTicket) -> ToolCallResume | None:
        if self._yes and not wants_value(ticket) and not asks_outcome(ticket):
            words = call_words(ticket.tool_name, ticket.arguments)
            self._transcript().note(f"{words} was approved automatically (--yes)")
            return build_approval(ticket)
        # Input typed before the question appeared was meant for something else.
        self._lines.discard_typed_input()
        try:
            if wants_value(ticket):
                return ToolCallResume.approve(
                    parse_value(await self._ask("value (text or JSON) ›"))
                )
            return await self._ask_for_approval(ticket)
        except EOFError:
            self._transcript().break_line()
            return None

    async def _ask_for_approval(self, ticket: RunWaitingTicket) -> ToolCallResume:
        call = Question(ticket.tool_name, ticket.arguments)
        is_cut = call.is_cut
        question = _build_question(call.words, ticket, is_cut)
        while True:
            line = await self._ask(question)
            if is_cut and line.lower() == SHOW:
                is_cut = False
                question = _build_question(call.whole, ticket, is_cut)
                continue
            answer = parse_approval(line, ticket)
            if answer is None:
                question = "please answer y, n, or the reason why not ›"
            elif is_cut and answer.action is ResumeAction.RESUME:
                question = f"not all of it was shown: answer {SHOW} to see it, or n ›"
            else:
                return answer

    async def _ask(self, question: str) -> str:
        transcript = self._transcript()
        transcript.print_question(question)
        try:
            while not (line := (await self._lines.read_line()).strip()):
                transcript.print_question(question)
        except (InputInterrupted, asyncio.CancelledError):
            transcript.break_line()
            raise
        return line


def _build_question(words: str, ticket: RunWaitingTicket, is_cut: bool) -> str:
    """Build the question about a call, with the possible answers."""
    yes = SHOW if is_cut else "y"
    if asks_outcome(ticket):
        return f"{words} was cut short by a crash. Did it take effect? [{yes} / n] ›"
    return f"approve {words}? [{yes} / n / why not] ›"


def parse_approval(line: str, ticket: RunWaitingTicket) -> ToolCallResume | None:
    """Parse a yes, a no, or a no with a reason. Returns `None` for a yes with conditions."""
    word = line.strip()
    if word.lower() in ("y", "yes"):
        return build_approval(ticket)
    if word.lower() in ("n", "no"):
        return ToolCallResume.deny()
    if _HALF_YES.match(word):
        return None
    refusal = _REFUSAL.fullmatch(word)
    return ToolCallResume.deny(refusal["reason"] if refusal else word)


def parse_value(line: str) -> Json:
    """Parse the input as JSON if it is JSON; else return it as text."""
    try:
        return loads(line)
    except (msgspec.DecodeError, RecursionError):
        return line
