"""Model requests outside the conversation: the run pays for them, their answers are not logged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from awaken.core.account import Reservation
from awaken.core.answer_stream import StreamListener, drive_of
from awaken.core.budget import Amount, Price
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, Role
from awaken.core.registry import ModelResolver, ResolvedModel
from awaken.engine.large_content import with_media
from awaken.engine.live_run import LiveRun
from awaken.engine.reservation import MOST_OUTPUT, estimate
from awaken.engine.spending import add_costs, note
from awaken.errors import BudgetExhausted, ModelPriceUnknown, ResolveFailed
from awaken.plugin.resolved_agent import ResolvedAgent

_HALF = 2
"""A side request may use at most half of what is left, so that enough remains for the run."""


async def make_side_request(
    run: LiveRun, agent: ResolvedAgent, request: InferenceRequest, model_id: str | None
) -> StreamResult:
    """Ask the agent's model, or the model `model_id`, and charge the run's budget. Returns the
    answer.

    Raises:
        BudgetExhausted: too little of the budget is left.
        ResolveError: there is no such model, or the budget limits money and its price is unknown.
        InferenceExecutionError: the model gave no answer.
    """
    model = _model(run, agent, model_id)
    asked = msgspec.structs.replace(request, upstream_model=model.upstream_model)
    if run.has_blobs:
        asked = await with_media(run, asked)
    heard = _SideListener(run, agent, model)
    try:
        await drive_of(model.executor)(await heard.afford(asked, ()), heard)
        return heard.finish()
    finally:
        heard.count()


class _SideListener(StreamListener):
    """Assembles the answer and counts its cost; nothing is sent to the run's listeners."""

    __slots__ = ("_agent", "_price", "_prices", "_prompt", "_reservation", "_run")

    def __init__(self, run: LiveRun, agent: ResolvedAgent, model: ResolvedModel) -> None:
        super().__init__(asyncio.current_task())
        self._run, self._agent = run, agent
        self._prices, self._price = model.prices, Price.highest(model.prices.values())
        self._prompt = 0
        self._reservation: Reservation | None = None

    async def afford(self, request: InferenceRequest, more: Sequence[Message]) -> InferenceRequest:
        self._prompt = sum(estimate(message) for message in request.messages) + estimate(
            Message(role=Role.SYSTEM, content=request.system)
        )
        self._reservation = await _set_aside(
            self._run, self._agent, request, self._prompt, self._price
        )
        return request

    def count(self, whole: bool = False) -> None:
        if self._usage is not None:
            answering = self._prices.get(self.model_id or "", self._price)
            add_costs(self._run, self._usage, answering)
        reservation, self._reservation = self._reservation, None
        if reservation is None:
            return
        used = Amount()
        if not self.is_silent:
            used = _measure_usage(self.this_stream(), self._prompt, self._price)
        reservation.settle(used)
        note(self._run, used)


def _model(run: LiveRun, agent: ResolvedAgent, model_id: str | None) -> ResolvedModel:
    if model_id is None:
        return ResolvedModel(
            upstream_model=agent.upstream_model, executor=agent.llm_executor, prices=agent.prices
        )
    resolver = run.setup.services.resolver
    if not isinstance(resolver, ModelResolver):
        raise ResolveFailed(f"model {model_id!r} cannot be found: the resolver finds no models")
    return resolver.resolve_model(msgspec.structs.replace(agent.spec, model_id=model_id))


async def _set_aside(
    run: LiveRun,
    agent: ResolvedAgent,
    request: InferenceRequest,
    prompt: int,
    price: Price | None,
) -> Reservation | None:
    account = run.controls.budget
    if account is None:
        return None
    if account.counts_money and price is None:
        raise ModelPriceUnknown(request.upstream_model, agent.spec.id)
    output = (request.overrides.max_tokens if request.overrides else None) or MOST_OUTPUT
    wanted = Amount(
        tokens=prompt + output, money=price.of(prompt, output) if price is not None else 0.0
    )
    left = account.remaining()
    for name in ("tokens", "money"):
        amount, rest = getattr(wanted, name), getattr(left, name)
        if rest is not None and amount * _HALF > rest:
            raise BudgetExhausted(name, limit=rest, left=rest / _HALF, wanted=amount, level=0)
    while (reservation := await account.reserve_shared(run.identity.run_id, wanted)) is None:
        pass  # another process reserved something meanwhile: try again with what is left
    return reservation


def _measure_usage(answer: StreamResult, prompt: int, price: Price | None) -> Amount:
    """The usage of an answer: the tokens that the provider reports, else the estimated ones."""
    output = estimate(Message(role=Role.ASSISTANT, content=answer.content))
    usage = answer.usage
    if usage is not None and (usage.prompt_tokens or 0) > 0:
        prompt, output = usage.prompt_tokens or 0, usage.completion_tokens or output
        took = msgspec.structs.replace(usage, prompt_tokens=prompt, completion_tokens=output)
    else:
        took = TokenUsage(prompt_tokens=prompt, completion_tokens=output)
    money = price.of_usage(took) if price is not None else 0.0
    return Amount(tokens=prompt + output, money=money)
