"""The layers between an agent and its models: retries, circuit breaker, pools, mending."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from awaken.clock import Clock
from awaken.core.budget import Price
from awaken.core.llm import LlmExecutor, StreamDriver
from awaken.core.spec import AgentSpec, ModelPoolSpec, ModelSpec
from awaken.engine.registry import ModelAndProvider
from awaken.errors import InvalidPluginConfig, KeyDecode
from awaken.models.circuit_breaker import CircuitBreaker
from awaken.models.learned_settings import LearnedSettings
from awaken.models.modality_guard import ModalityGuard
from awaken.models.output_tool import OutputTool
from awaken.models.pool import PoolExecutor, PoolMember, should_switch_model
from awaken.models.retry import LlmRetryPolicy, RetryingExecutor
from awaken.models.stream_recovery import MendingExecutor
from awaken.runtime.builder import AgentRuntimeBuilder
from awaken.runtime.open_by_name import open_model

_Made = tuple[tuple[tuple[ModelAndProvider, ...], ModelPoolSpec | None], StreamDriver]
"""The models and the pool that a driver was made for, and that driver."""


class ModelStack:
    """Makes the driver through which an agent's runs ask its models. All drivers share one breaker.

    Runs that ask the same models in the same way share a driver: a pool remembers which member each
    conversation uses.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._breaker = CircuitBreaker(clock=clock)
        self._made: dict[tuple[str, LlmRetryPolicy, bool], _Made] = {}

    def __call__(
        self, spec: AgentSpec, models: Sequence[ModelAndProvider], pool: ModelPoolSpec | None
    ) -> StreamDriver:
        try:
            policy = spec.config("retry", LlmRetryPolicy)
        except KeyDecode as error:
            raise InvalidPluginConfig("retry", "retry", error) from error
        name = models[0][0].id if pool is None else pool.id
        key, wanted = (name, policy, spec.output is not None), (tuple(models), pool)
        made = self._made.get(key)
        if made is None or made[0] != wanted:
            made = self._made[key] = wanted, self._make(spec, models, pool, policy)
        return made[1]

    def _make(
        self,
        spec: AgentSpec,
        models: Sequence[ModelAndProvider],
        pool: ModelPoolSpec | None,
        policy: LlmRetryPolicy,
    ) -> StreamDriver:
        if pool is None:
            inner = self._one(spec, models[0], policy)
        else:
            members = [self._member(spec, each, policy, pool) for each in models]
            inner = PoolExecutor(pool, members, clock=self._clock)
        return MendingExecutor(inner, policy, clock=self._clock)

    def _one(
        self,
        spec: AgentSpec,
        named: ModelAndProvider,
        policy: LlmRetryPolicy,
        pool: ModelPoolSpec | None = None,
    ) -> StreamDriver:
        model, provider = named
        learned = LearnedSettings(provider)
        retrying = RetryingExecutor(
            OutputTool(learned) if spec.output is not None else learned,
            policy,
            clock=self._clock,
            breaker=self._breaker,
            scope=model.id,
            leaves=partial(should_switch_model, pool.switch) if pool is not None else None,
        )
        reads = model.modalities.input if model.modalities is not None else ()
        return ModalityGuard(retrying, model.id, reads) if reads else retrying

    def _member(
        self, spec: AgentSpec, named: ModelAndProvider, policy: LlmRetryPolicy, pool: ModelPoolSpec
    ) -> PoolMember:
        model = named[0]
        circuit = f"{model.id}/{model.upstream_model}"
        return PoolMember(
            model_id=model.id,
            upstream_model=model.upstream_model,
            executor=self._one(spec, named, policy, pool),
            refusal=partial(self._breaker.refusal, circuit),
        )


class Models:
    """The models and pools that agents name, each opened once, with their specs and prices."""

    def __init__(
        self,
        given: Mapping[str, LlmExecutor | ModelPoolSpec],
        specs: Iterable[ModelSpec],
        prices: Mapping[str, Price],
    ) -> None:
        self._executors: dict[str, LlmExecutor] = {}
        self._pools: dict[str, ModelPoolSpec] = {}
        self._opened: dict[str, LlmExecutor] = {}
        self._specs = {spec.id: spec for spec in specs}
        self._prices = prices
        # Pools last: their members may be among those given.
        for name, model in sorted(
            given.items(), key=lambda item: isinstance(item[1], ModelPoolSpec)
        ):
            self.add(name, model)

    def copy(self) -> Models:
        """A copy to which models can be added; opened models are shared."""
        other = copy.copy(self)
        other._executors, other._pools = dict(self._executors), dict(self._pools)
        return other

    def add(self, name: str, model: str | LlmExecutor | ModelPoolSpec) -> None:
        """Add a model, or a pool and its models, unless the name is known.

        Raises:
            ConfigError: the model's provider is unknown, or its key or SDK is missing.
        """
        if name in self._executors or self._pools.get(name) == model:
            return
        if isinstance(model, ModelPoolSpec):
            self._pools[name] = model
            for member in model.members:
                self.add(member.model_id, member.model_id)
        elif name not in self._pools:
            self._executors[name] = self._open(model) if isinstance(model, str) else model

    def _open(self, name: str) -> LlmExecutor:
        if name not in self._opened:
            spec = self._specs.get(name)
            self._opened[name] = open_model(spec.provider_id if spec is not None else name)
        return self._opened[name]

    def register(self, builder: AgentRuntimeBuilder) -> None:
        """Add all models and pools to a builder."""
        for name, executor in self._executors.items():
            builder.with_provider(name, executor).with_model_binding(self._spec(name, executor))
        for pool in self._pools.values():
            builder.with_model_pool(pool)

    def _spec(self, name: str, executor: LlmExecutor) -> ModelSpec:
        upstream = name.partition(":")[2] or executor.name
        price = self._prices.get(name) or self._prices.get(upstream)
        known = self._specs.get(name) or ModelSpec(
            id=name, provider_id=name, upstream_model=upstream
        )
        if price is not None:
            known = msgspec.structs.replace(
                known,
                input_price=price.input,
                output_price=price.output,
                cache_read_price=price.cache_read,
                cache_write_price=price.cache_write,
            )
        return msgspec.structs.replace(known, provider_id=name)

    async def close(self) -> None:
        """Close the models that were opened by name; one that is asked again is opened again."""
        for executor in self._opened.values():
            close: Callable[[], Awaitable[None]] | None = getattr(executor, "aclose", None)
            if close is not None:
                await close()
