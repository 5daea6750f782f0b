"""Model pools: several models under one id that replace one another when one fails."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from awaken.core.value import Value


class PoolRole(StrEnum):
    """The role of a model; a `failover_only` model is called only if no other can be."""

    MEMBER = "member"
    FAILOVER_ONLY = "failover_only"


class PoolHome(StrEnum):
    """Which model a conversation starts with: chosen by its id, in turn, or the first healthy."""

    DETERMINISTIC = "deterministic"
    ROUND_ROBIN = "round_robin"
    FIRST_HEALTHY = "first_healthy"


class StickyScope(StrEnum):
    """Whether a thread or a run stays with one model as long as that works."""

    THREAD = "thread"
    RUN = "run"


class PoolMemberSpec(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of a pool; its weight is 1 by default."""

    model_id: str
    weight: float | None = None
    role: PoolRole = PoolRole.MEMBER


class PoolRouting(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model is called first."""

    home: PoolHome = PoolHome.DETERMINISTIC
    sticky_scope: StickyScope = StickyScope.THREAD


class PoolSwitch(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a pool switches models: on an open circuit, a used-up quota, or a permanent error.

    If a provider asks to retry within less than `quota_retry_after_threshold_secs`, the pool waits
    for it. A conversation switches models at most `max_switches_per_session` times in a row.
    """

    on_circuit_open: bool = True
    on_quota: bool = True
    on_permanent: bool = True
    quota_retry_after_threshold_secs: Annotated[int, Meta(ge=0)] | None = None
    max_switches_per_session: Annotated[int, Meta(ge=0)] | None = None


class ModelPoolSpec(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several models under one id."""

    id: str
    members: tuple[PoolMemberSpec, ...]
    routing: PoolRouting = msgspec.field(default_factory=PoolRouting)
    switch: PoolSwitch = msgspec.field(default_factory=PoolSwitch)

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise ValueError(f"model pool {self.id!r} {problem}")

    def _problem(self) -> str | None:
        ids = [member.model_id for member in self.members]
        if not ids:
            return "has no members"
        twice = sorted({id for id in ids if ids.count(id) > 1})
        if twice:
            return f"has a member twice: {', '.join(twice)}"
        for member in self.members:
            if member.weight is not None and not 0 < member.weight < float("inf"):
                return f"gives {member.model_id!r} the weight {member.weight}: it must be above 0"
        if all(member.role is PoolRole.FAILOVER_ONLY for member in self.members):
            return "has only failover_only members: at least one must be a plain member"
        return None
