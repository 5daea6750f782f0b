"""Reserving a step's budget before the model is asked, and counting its usage afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.codec import dumps
from awaken.core.account import Account, Reservation
from awaken.core.aio.cancel import CancellationToken, interruptible
from awaken.core.budget import Amount, Price
from awaken.core.inference import TokenUsage
from awaken.core.message import Message, Text, Thinking
from awaken.errors import BudgetExhausted, StoreError
from awaken.plugin.resolved_agent import ResolvedAgent

MOST_OUTPUT = 4096
"""How many output tokens are reserved if neither agent nor request limits the answer."""
LEAST_OUTPUT = 64
"""The model is not asked for an answer of fewer tokens than this."""

log = logging.getLogger("awaken.loop")

_MESSAGE = 8
_BYTES_A_TOKEN = 3
_OTHER_BLOCK = 1600


class StepReservation:
    """Reserves the budget of the next inference, and counts its usage afterwards.

    Estimates of prompts are rather too high than too low. If a provider reports more tokens than
    estimated, later estimates are raised in proportion. Each message is estimated once, unless the
    run changes its agent or the conversation is rewritten.
    """

    def __init__(self, account: Account, run_id: str) -> None:
        self.account = account
        self.max_output: int | None = None
        self._run_id = run_id
        self._agent: ResolvedAgent | None = None
        self._last: Message | None = None
        self._seen = 0
        self._tokens = 0
        self._factor = 1.0
        self._prompt = 0
        self._steps = 1
        self._held: Reservation | None = None

    # -- before -------------------------------------------------------------------------------

    async def reserve(
        self,
        agent: ResolvedAgent,
        messages: Sequence[Message],
        asked: int | None,
        token: CancellationToken | None,
        task: asyncio.Task[Any] | None,
        *,
        steps: int = 1,
    ) -> None:
        """Reserve the most that one inference may use: the conversation and an answer of `asked`
        tokens. For an inference that continues an answer the caller passes `steps=0`, since it is
        not a new step.

        If too little is left, waits as long as other reservations may still give some back.

        Raises:
            BudgetExhausted: too little is left.
            Cancelled: the run was cancelled.
        """
        self.drop()  # a stream that broke off before its first event has left its reservation
        self._prompt, self._steps = self._estimate(agent, messages), steps
        await self.account.yield_to_waiting()
        while True:
            try:
                self._held = await self._try(agent, asked)
                if self._held is not None:
                    return
                continue
            except BudgetExhausted as error:
                if not error.may_come_back:
                    raise
            with interruptible(token, task):
                await self.account.wait_for_budget()

    async def _try(self, agent: ResolvedAgent, asked: int | None) -> Reservation | None:
        price, left = agent.price, self.account.remaining()
        output = asked or MOST_OUTPUT
        if left.tokens is not None:
            output = min(output, int(left.tokens - self._prompt))
        if left.money is not None and price is not None and price.output > 0:
            spare = left.money - price.of(self._prompt, 0)
            output = min(output, int(spare / price.output * 1_000_000))
        output = max(output, min(LEAST_OUTPUT, asked or LEAST_OUTPUT))
        reservation = await self.account.reserve_shared(
            self._run_id,
            Amount(
                tokens=self._prompt + output,
                money=price.of(self._prompt, output) if price is not None else 0.0,
                steps=self._steps,
            ),
        )
        limited = left.tokens is not None or left.money is not None
        self.max_output = output if limited else None
        return reservation

    def _estimate(self, agent: ResolvedAgent, messages: Sequence[Message]) -> int:
        if agent is not self._agent or not self._goes_on(messages):
            self._agent, self._seen = agent, 0
            self._tokens = _size(agent.spec.system_prompt.encode()) + sum(
                _size(dumps(tool)) for tool in agent.descriptors
            )
        for message in messages[self._seen :]:
            self._tokens += estimate(message)
        self._seen = len(messages)
        self._last = messages[-1] if messages else None
        return int(self._tokens * self._factor) + 1

    def _goes_on(self, messages: Sequence[Message]) -> bool:
        """Whether these messages begin with the ones estimated before."""
        seen = self._seen
        return seen == 0 or (seen <= len(messages) and messages[seen - 1] is self._last)

    # -- after --------------------------------------------------------------------------------

    def settle(self, price: Price | None, usage: TokenUsage | None, heard: int) -> Amount:
        """Count the usage of an inference: as the provider reports it, else the estimated prompt
        and `heard` output tokens. Returns the amount."""
        reservation, self._held = self._held, None
        if reservation is None:
            return Amount()
        prompt, output = self._prompt, heard
        took = TokenUsage(prompt_tokens=prompt, completion_tokens=output)
        # No prompt has 0 tokens: a provider that reports 0 does not count.
        if usage is not None and (usage.prompt_tokens or 0) > 0:
            prompt = usage.prompt_tokens or 0
            if usage.completion_tokens is not None:
                output = max(0, usage.completion_tokens)
            took = msgspec.structs.replace(usage, prompt_tokens=prompt, completion_tokens=output)
            self._factor = max(self._factor, prompt * self._factor / self._prompt)
        used = Amount(
            tokens=prompt + output,
            money=price.of_usage(took) if price is not None else 0.0,
            steps=self._steps,
        )
        reservation.settle(used)
        return used + self.lap()

    def count_unanswered(self, agent: ResolvedAgent, messages: Sequence[Message]) -> Amount:
        """Count a request whose answer was lost because its process died: one step and the prompt.
        Returns the amount."""
        prompt, price = self._estimate(agent, messages), agent.price
        money = price.of(prompt, 0) if price is not None else 0.0
        used = Amount(tokens=prompt, money=money, steps=1)
        self.account.use(self._run_id, used)
        return used

    def drop(self) -> None:
        """Give back the reservation, if there is one: the inference used none of it."""
        reservation, self._held = self._held, None
        if reservation is not None:
            reservation.settle(Amount())

    def lap(self) -> Amount:
        """Count the time since this was last called. Returns the amount."""
        return Amount(seconds=self.account.count_time(self._run_id))

    # -- with others --------------------------------------------------------------------------

    async def publish(self, *, leaves: bool = False) -> None:
        """Publish the usage to the other processes of the run's tree. With `leaves`, another
        process will continue the run, and this one publishes nothing more."""
        try:
            await self.account.publish(leaves=leaves)
        except StoreError as error:
            log.warning("run %s: what it used is published later: %s", self._run_id, error)


def estimate(message: Message, *, more: int = 0) -> int:
    """The estimated tokens of a message and of `more` bytes: rather too many than too few."""
    size = more
    for block in message.content:
        if isinstance(block, Text):
            size += len(block.text.encode())
        elif isinstance(block, Thinking):
            size += len(block.thinking.encode())
        else:
            size += _OTHER_BLOCK * _BYTES_A_TOKEN
    for call in message.tool_calls or ():
        size += len(call.name) + len(dumps(call.arguments))
    return _MESSAGE + size // _BYTES_A_TOKEN


def _size(text: bytes) -> int:
    return len(text) // _BYTES_A_TOKEN + _MESSAGE
