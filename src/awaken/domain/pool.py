"""A pool: several models that stand in for one another, as data."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from awaken.domain.value import Value


class PoolRole(StrEnum):
    """`failover_only` models are asked when no other can be."""

    MEMBER = "member"
    FAILOVER_ONLY = "failover_only"


class PoolHome(StrEnum):
    """Which model a conversation begins with: by its name, in turn, or the first that works."""

    DETERMINISTIC = "deterministic"
    ROUND_ROBIN = "round_robin"
    FIRST_HEALTHY = "first_healthy"


class StickyScope(StrEnum):
    """What stays with one model as long as that works."""

    THREAD = "thread"
    RUN = "run"


class PoolMemberSpec(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of a pool; without a weight it has the weight one."""

    model_id: str
    weight: float | None = None
    role: PoolRole = PoolRole.MEMBER


class PoolRouting(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is asked first."""

    home: PoolHome = PoolHome.DETERMINISTIC
    sticky_scope: StickyScope = StickyScope.THREAD


class PoolSwitch(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When another model is asked: its circuit is open, its quota is used up, it will never answer.

    A provider that wants to be asked again in less than `quota_retry_after_threshold_secs` is
    waited for. A conversation changes its model at most `max_switches_per_session` times in a row.
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
            return "has members for failover only: at least one must be a plain member"
        return None
