"""Asking a model beside the conversation: what it takes is counted, what it says is not logged."""

from __future__ import annotations

import msgspec

from awaken.contract.accumulate import StreamAccumulator
from awaken.contract.budget import Reservation
from awaken.contract.llm import InferenceRequest
from awaken.contract.registry import ModelResolver, ResolvedModel
from awaken.domain.budget import Amount, Price
from awaken.domain.inference import StreamResult
from awaken.domain.message import Message, Role
from awaken.errors import BudgetExhausted, ModelPriceUnknown, ResolveFailed
from awaken.loop.live import LiveRun
from awaken.loop.purse import MOST_OUTPUT, estimate
from awaken.loop.spending import note
from awaken.plugin.agent import ResolvedAgent

_HALF = 2
"""What is asked aside may take half of what is left at most: the run itself goes first."""


async def ask_aside(
    run: LiveRun, agent: ResolvedAgent, request: InferenceRequest, model_id: str | None
) -> StreamResult:
    """The answer of the agent's model, or of another one; what it takes is the run's spending.

    Raises:
        BudgetExhausted: there is not enough left for it.
        ResolveError: there is no such model.
        InferenceExecutionError: it could not be had.
    """
    model = _model(run, agent, model_id)
    price = Price.highest(model.prices.values())
    asked = msgspec.structs.replace(request, upstream_model=model.upstream_model)
    prompt = sum(estimate(message) for message in asked.messages) + estimate(
        Message(role=Role.SYSTEM, content=asked.system)
    )
    reservation = await _set_aside(run, agent, asked, prompt, price)
    heard, used = StreamAccumulator(), Amount()
    try:
        await _listen(model, asked, heard)
        return heard.finish()
    finally:
        if reservation is not None:
            if heard.progress:
                used = _used(heard.this_stream(), prompt, price)
            reservation.settle(used)
            note(run, used)


def _model(run: LiveRun, agent: ResolvedAgent, model_id: str | None) -> ResolvedModel:
    if model_id is None:
        return ResolvedModel(
            upstream_model=agent.upstream_model, executor=agent.llm_executor, prices=agent.prices
        )
    if not isinstance(run.resolver, ModelResolver):
        raise ResolveFailed(f"model {model_id!r} cannot be found: the resolver finds no models")
    return run.resolver.resolve_model(msgspec.structs.replace(agent.spec, model_id=model_id))


async def _set_aside(
    run: LiveRun,
    agent: ResolvedAgent,
    request: InferenceRequest,
    prompt: int,
    price: Price | None,
) -> Reservation | None:
    account = run.budget
    if account is None:
        return None
    if account.counts_money and price is None:
        raise ModelPriceUnknown(request.upstream_model, agent.spec.id)
    output = (request.overrides.max_tokens if request.overrides else None) or MOST_OUTPUT
    wanted = Amount(
        tokens=prompt + output, money=price.of(prompt, output) if price is not None else 0.0
    )
    left = account.left()
    for name in ("tokens", "money"):
        amount, rest = getattr(wanted, name), getattr(left, name)
        if rest is not None and amount * _HALF > rest:
            raise BudgetExhausted(name, limit=rest, left=rest / _HALF, wanted=amount, level=0)
    while (reservation := await account.set_aside(run.identity.run_id, wanted)) is None:
        pass  # others have set something aside meanwhile: there may be enough all the same
    return reservation


async def _listen(
    model: ResolvedModel, request: InferenceRequest, heard: StreamAccumulator
) -> None:
    stream = model.executor.execute_stream(request)
    try:
        async for event in stream:
            heard.push(event)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _used(answer: StreamResult, prompt: int, price: Price | None) -> Amount:
    """What an answer took; where nothing is reported, what was sent and heard."""
    output = estimate(Message(role=Role.ASSISTANT, content=answer.content))
    usage = answer.usage
    if usage is not None and (usage.prompt_tokens or 0) > 0:
        prompt, output = usage.prompt_tokens or 0, usage.completion_tokens or output
    money = price.of(prompt, output) if price is not None else 0.0
    return Amount(tokens=prompt + output, money=money)
