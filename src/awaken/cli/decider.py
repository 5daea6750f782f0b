"""The deciders, which answer waiting calls: a person at the terminal, or a fixed rule."""

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
NOBODY_THERE = "no approver was there"

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


def approval(ticket: AskedCall) -> ToolCallResume:
    """A yes to the call, unchanged."""
    if ticket.answer_mode is ToolCallResumeMode.PASS_DECISION_TO_TOOL:
        return ToolCallResume.approve(ticket.arguments)
    return ToolCallResume.approve()


class Unattended:
    """Approves every call or none, and says so each time. A call that needs a value is left
    waiting."""

    def __init__(self, *, approve: bool, why: str, say: Callable[[str], None]) -> None:
        self.by = f"nobody ({why})"
        self._approve, self._why, self._say = approve, why, say

    async def decide(self, ticket: RunWaitingTicket) -> ToolCallResume | None:
        words = call_words(ticket.tool_name, ticket.arguments)
        if asks_outcome(ticket):
            self._say(f"it is unknown whether {words} took effect: the run waits")
            return None
        if wants_value(ticket):
            self._say(f"{words} wants a value, and there is no terminal to ask: the run waits")
            return None
        if self._approve:
            self._say(f"{words} was approved automatically ({self._why})")
            return approval(ticket)
        self._say(f"{words} was denied ({self._why})")
        return ToolCallResume.deny(NOBODY_THERE)


class AtTerminal:
    """Asks on the terminal. At the end of input, the call is left waiting."""

    def __init__(
        self, lines: StdinLines, transcript: Callable[[], TurnPrinter], *, yes: bool
    ) -> None:
        self.by = user_name()
        self._lines, self._transcript, self._yes = lines, transcript, yes

    async def decide(self, ticket: RunWaitingTicket) -> ToolCallResume | None:
        if self._yes and not wants_value(ticket) and not asks_outcome(ticket):
            words = call_words(ticket.tool_name, ticket.arguments)
            self._transcript().note(f"{words} was approved automatically (--yes)")
            return approval(ticket)
        # Input typed before the question appeared was meant for something else.
        self._lines.discard_typed_input()
        try:
            if wants_value(ticket):
                return ToolCallResume.approve(read_value(await self._ask("value (text or JSON) ›")))
            return await self._approval(ticket)
        except EOFError:
            self._transcript().break_line()
            return None

    async def _approval(self, ticket: RunWaitingTicket) -> ToolCallResume:
        call = Question(ticket.tool_name, ticket.arguments)
        is_cut = call.is_cut
        question = _asked(call.words, ticket, is_cut)
        while True:
            line = await self._ask(question)
            if is_cut and line.lower() == SHOW:
                is_cut = False
                question = _asked(call.whole, ticket, is_cut)
                continue
            answer = read_approval(line, ticket)
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


def _asked(words: str, ticket: RunWaitingTicket, is_cut: bool) -> str:
    """The question about a call, with the possible answers."""
    yes = SHOW if is_cut else "y"
    if asks_outcome(ticket):
        return f"{words} was cut short by a crash. Did it take effect? [{yes} / n] ›"
    return f"approve {words}? [{yes} / n / why not] ›"


def read_approval(line: str, ticket: RunWaitingTicket) -> ToolCallResume | None:
    """Yes, no, or no with a reason; `None` for a yes with conditions, which is neither."""
    word = line.strip()
    if word.lower() in ("y", "yes"):
        return approval(ticket)
    if word.lower() in ("n", "no"):
        return ToolCallResume.deny()
    if _HALF_YES.match(word):
        return None
    refusal = _REFUSAL.fullmatch(word)
    return ToolCallResume.deny(refusal["reason"] if refusal else word)


def read_value(line: str) -> Json:
    """The input as JSON if it is JSON, else as text."""
    try:
        return loads(line)
    except (msgspec.DecodeError, RecursionError):
        return line
