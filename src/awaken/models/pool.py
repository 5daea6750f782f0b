"""Failover between several models behind one name: a conversation stays with one while it works."""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import NamedTuple

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json
from awaken.core.llm import (
    AllModelsUnavailable,
    AnswerListener,
    InferenceExecutionError,
    InferenceRequest,
    ModelAbilities,
    ModelMissing,
    Overloaded,
    PoolAttemptsExhausted,
    RateLimited,
    StreamDriver,
    Unauthorized,
    abilities_of,
    preview_of,
)
from awaken.core.spec import ModelPoolSpec, PoolHome, PoolRole, PoolSwitch, StickyScope
from awaken.models.circuit_breaker import CircuitOpen
from awaken.models.wrapper import error_line

log = logging.getLogger("awaken.llm")
MAX_SESSIONS = 4096
QUARANTINE = 300.0
"""Seconds for which a model is not asked after its provider refused the key or did not know the
model."""


class PoolMember(msgspec.Struct):
    """A model of a pool: its executor, and the error that a call would get now because the circuit
    is open; `None` if the model can be asked."""

    model_id: str
    upstream_model: str
    executor: StreamDriver
    refusal: Callable[[], CircuitOpen | None]


class _Quarantine(NamedTuple):
    """Until when a model is not asked, and the text of the error behind it."""

    until: float
    error: str


class _ModelChoice(msgspec.Struct):
    """The model that a conversation uses, and how often it has moved since its last answer."""

    index: int | None = None
    moves: int = 0
    in_flight: int = 0


def should_switch_model(switch: PoolSwitch, error: InferenceExecutionError) -> bool:
    """Whether the pool asks another model at once after this error."""
    if isinstance(error, CircuitOpen):
        return switch.on_circuit_open
    if isinstance(error, Unauthorized | ModelMissing):
        return switch.on_permanent
    if isinstance(error, RateLimited | Overloaded):
        least, asked = switch.quota_retry_after_threshold_secs, error.retry_after
        return switch.on_quota and (least is None or asked is None or asked >= least)
    return False


class PoolExecutor:
    """Asks the model that a conversation uses, and another one if that cannot answer.

    Temporary errors are left to the members' own retries and circuits; a conversation moves only
    when a circuit opens.
    """

    def __init__(
        self, spec: ModelPoolSpec, members: Iterable[PoolMember], *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._spec = spec
        self._members = list(members)
        self._clock = clock
        self._sessions: OrderedDict[str, _ModelChoice] = OrderedDict()
        self._quarantined: dict[int, _Quarantine] = {}
        self._turn = count()
        weights = [member.weight or 1.0 for member in spec.members]
        self._weights = weights
        self._home = [i for i, m in enumerate(spec.members) if m.role is PoolRole.MEMBER]
        self._turns = [i for i in self._home for _ in range(max(1, round(weights[i])))]

    @property
    def name(self) -> str:
        return self._spec.id

    def abilities(self, upstream_model: str) -> ModelAbilities:
        """The abilities that all members share."""
        all_of = [abilities_of(m.executor, m.upstream_model) for m in self._members]
        inputs = [each.input for each in all_of if each.input is not None]
        return ModelAbilities(
            native_output=all(each.native_output for each in all_of),
            input=frozenset.intersection(*inputs) if len(inputs) == len(all_of) else None,
            context_window=_min_limit([each.context_window for each in all_of]),
            max_output_tokens=_min_limit([each.max_output_tokens for each in all_of]),
        )

    def preview(self, request: InferenceRequest) -> Json:
        """The body for the provider of the member that has the request's model, else of the first
        one; see `preview_of`."""
        named = [m for m in self._members if m.upstream_model == request.upstream_model]
        member = (named or self._members)[0]
        asked = msgspec.structs.replace(request, upstream_model=member.upstream_model)
        return preview_of(member.executor, asked)

    async def drive(self, request: InferenceRequest, listener: AnswerListener) -> None:
        """Ask a member, and pass its answer to the listener.

        Raises:
            AllModelsUnavailable: no model can be asked now.
            PoolAttemptsExhausted: every model was asked.
            InferenceExecutionError: the model did not answer.
        """
        session = self._session(request)
        session.in_flight += 1
        try:
            await self._drive(self._key(request), session, request, listener)
        finally:
            session.in_flight -= 1

    async def _drive(
        self, key: str, session: _ModelChoice, request: InferenceRequest, listener: AnswerListener
    ) -> None:
        tried: dict[int, InferenceExecutionError] = {}
        while True:
            before = session.index
            rest = self._move_reason(before) if before is not None and before not in tried else None
            try:
                index = self._choose(key, before, rest is None, tried)
            except InferenceExecutionError as error:
                raise error from next(reversed(tried.values()), None)
            member, session.index = self._members[index], index
            if before is not None and before != index:
                self._log_switch(before, index, key, rest or error_line(tried[before]))
            listener.model_id = member.model_id
            asked = msgspec.structs.replace(request, upstream_model=member.upstream_model)
            try:
                await member.executor.drive(asked, listener)
            except InferenceExecutionError as error:
                if not should_switch_model(self._spec.switch, error):
                    raise
                if isinstance(error, Unauthorized | ModelMissing):
                    self._quarantine(index, error)
                most = self._spec.switch.max_switches_per_session
                if most is not None and session.moves >= most:
                    raise
                session.moves += 1
                tried[index] = error
                if not listener.is_silent:
                    # `MendingExecutor` asks again; the conversation has moved by then.
                    session.index = self._choose_other(key, tried)
                    if session.index is not None:
                        self._log_switch(index, session.index, key, error_line(error))
                    raise
            else:
                session.moves = 0
                return

    def _quarantine(self, index: int, error: InferenceExecutionError) -> None:
        until = self._clock.monotonic() + QUARANTINE
        self._quarantined[index] = rest = _Quarantine(until, error_line(error))
        log.warning(
            "pool %s: model %s is asked again in %.0f s: %s",
            *(self.name, self._members[index].model_id, QUARANTINE, rest.error),
        )

    def _log_switch(self, index: int, to: int, key: str, why: str) -> None:
        models = self._members[index].model_id, self._members[to].model_id
        log.warning(
            "pool %s: conversation %s moves from model %s to model %s: %s",
            *(self.name, key, *models, why),
        )

    # -- choosing -----------------------------------------------------------------------------

    def _choose(self, key: str, here: int | None, stays: bool, tried: Collection[int]) -> int:
        if here is not None and here not in tried and stays:
            return here
        if here is None:
            home = self._choose_home(key, [i for i in self._home if self._is_healthy(i)])
            if home is not None:
                return home
        other = self._choose_other(key, tried)
        if other is not None:
            return other
        if len(tried) == len(self._members):
            raise PoolAttemptsExhausted
        raise AllModelsUnavailable

    def _move_reason(self, index: int) -> str | None:
        """Why the pool moves a conversation from this model without asking the model: its last
        error, and when it is asked again. `None` if the conversation stays."""
        if not self._spec.switch.on_circuit_open:
            return None
        refused = self._refusal(index)
        if isinstance(refused, _Quarantine):
            name, wait = self._members[index].model_id, refused.until - self._clock.monotonic()
            return f"{refused.error}; model {name} is asked again in {wait:.0f} s"
        return None if refused is None else error_line(refused)

    def _choose_home(self, key: str, healthy: Sequence[int]) -> int | None:
        """The model that a conversation begins with."""
        if not healthy:
            return None
        match self._spec.routing.home:
            case PoolHome.FIRST_HEALTHY:
                return healthy[0]
            case PoolHome.ROUND_ROBIN:
                turns = [i for i in self._turns if i in healthy]
                return turns[next(self._turn) % len(turns)]
            case PoolHome.DETERMINISTIC:
                return self._best(key, healthy)

    def _choose_other(self, key: str, tried: Collection[int]) -> int | None:
        """The best model that can be asked now and was not tried yet."""
        healthy = [i for i in range(len(self._members)) if i not in tried and self._is_healthy(i)]
        if self._spec.routing.home is PoolHome.FIRST_HEALTHY:
            return healthy[0] if healthy else None
        return self._best(key, healthy)

    def _best(self, key: str, among: Sequence[int]) -> int | None:
        """The model with the highest score; the first of equals."""
        return max(among, key=lambda i: self._score(key, i), default=None)

    def _score(self, key: str, index: int) -> float:
        hashed = fnv1a_64(f"{key}\0{self._members[index].model_id}".encode())
        return self._weights[index] / -math.log((hashed + 1) / (2**64 + 1))

    def _is_healthy(self, index: int) -> bool:
        return self._refusal(index) is None

    def _refusal(self, index: int) -> _Quarantine | CircuitOpen | None:
        """Why a model is not asked now; `None` if it can be asked."""
        rests = self._quarantined.get(index)
        if rests is not None and self._clock.monotonic() < rests.until:
            return rests
        return self._members[index].refusal()

    # -- conversations ------------------------------------------------------------------------

    def _key(self, request: InferenceRequest) -> str:
        key = request.routing_key
        if key is None:
            return ""
        by_run = self._spec.routing.sticky_scope is StickyScope.RUN
        return (key.run_id if by_run else key.thread_id) or ""

    def _session(self, request: InferenceRequest) -> _ModelChoice:
        """The state of a conversation; those unused for longest are dropped."""
        key = self._key(request)
        session = self._sessions.pop(key, None) or _ModelChoice()
        self._sessions[key] = session
        if len(self._sessions) > MAX_SESSIONS:
            idle = next(
                (k for k, s in self._sessions.items() if not s.in_flight and k != key), None
            )
            if idle is not None:
                del self._sessions[idle]
        return session


def fnv1a_64(data: bytes) -> int:
    """The hash of Fowler, Noll and Vo, variant 1a: the same in every process and language."""
    hashed = 0xCBF29CE484222325
    for byte in data:
        hashed = ((hashed ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return hashed


def _min_limit(limits: Sequence[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return min(known) if known and len(known) == len(limits) else None
