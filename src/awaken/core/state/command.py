"""Commands: the state updates, scheduled actions and effects that a hook, handler or tool asks for.

Commands that parallel hooks or tools made from one snapshot are joined into one. Two that write the
same exclusive key conflict: `merge_parallel` raises, and `awaken.engine.phases` resolves the
conflict between hooks. No store, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Self, TypeVar

import msgspec

from awaken.codec import Json, dumps_state, from_json, loads
from awaken.core.context_message import ContextMessage
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import Phase
from awaken.core.state.key import Merge, StateKey
from awaken.core.value import Value
from awaken.errors import KeyDecode, KeyEncode, MutationBaseRevisionMismatch, ParallelMergeConflict


class Command:
    """The changes a hook, handler or tool asks for. They take effect when it is submitted."""

    __slots__ = ("actions", "batch", "effects")

    def __init__(self, base_revision: int | None = None) -> None:
        self.batch = MutationBatch(base_revision)
        self.actions: list[ScheduledAction] = []
        self.effects: list[TypedEffect] = []

    def update(self, key: StateKey[Any, U], update: U) -> Self:
        """Add an update of `key`; several updates of one key apply in order."""
        self.batch.ops.append((key, update))
        return self

    def schedule_action(self, spec: ScheduledActionSpec[P], payload: P) -> Self:
        """Schedule an action: its handler gets `payload` when the action's phase runs.

        Raises:
            KeyEncode: the payload is not JSON-able.
        """
        self.actions.append(
            ScheduledAction(key=spec.key, phase=spec.phase, payload=spec.encode(payload))
        )
        return self

    def emit(self, spec: EffectSpec[P], payload: P) -> Self:
        """Add an effect: its handler gets `payload` after the commit; the run does not wait.

        Raises:
            KeyEncode: the payload is not JSON-able.
        """
        self.effects.append(TypedEffect(key=spec.key, payload=spec.encode(payload)))
        return self

    def extend(self, other: Command) -> Self:
        """Append everything that `other` asks for."""
        self.batch.extend(other.batch)
        self.actions.extend(other.actions)
        self.effects.extend(other.effects)
        return self

    @classmethod
    def join(cls, commands: Iterable[Command]) -> Command:
        joined = cls()
        for command in commands:
            joined.extend(command)
        return joined

    def __bool__(self) -> bool:
        return bool(self.batch.ops or self.actions or self.effects)

    def __repr__(self) -> str:
        return (
            f"Command(keys={self.batch.touched_keys}, actions={[a.key for a in self.actions]}, "
            f"effects={[e.key for e in self.effects]})"
        )


class MutationBatch:
    """Updates to apply together, and the revision of the snapshot they were made from."""

    __slots__ = ("base_revision", "ops")

    def __init__(self, base_revision: int | None = None) -> None:
        self.base_revision = base_revision
        self.ops: list[tuple[StateKey[Any, Any], Any]] = []

    @property
    def touched_keys(self) -> list[str]:
        return [key.name for key, _ in self.ops]

    def update(self, key: StateKey[Any, U], update: U) -> Self:
        self.ops.append((key, update))
        return self

    def extend(self, other: MutationBatch) -> Self:
        """Append the updates of `other`.

        Raises:
            MutationBaseRevisionMismatch: the two were made from different revisions.
        """
        left, right = self.base_revision, other.base_revision
        if left is not None and right is not None and left != right:
            raise MutationBaseRevisionMismatch(left, right)
        self.base_revision = right if left is None else left
        self.ops.extend(other.ops)
        return self

    def __bool__(self) -> bool:
        return bool(self.ops)


# -- actions and effects ----------------------------------------------------------------------


P = TypeVar("P")
U = TypeVar("U")


class _PayloadSpec(Generic[P]):
    """The name and the payload type of an action or effect."""

    def __init__(self, key: str, type: type[P] | Any = Any) -> None:
        self.key = key
        self.type = type

    def encode(self, payload: P) -> Json:
        try:
            return loads(dumps_state(payload))
        except Exception as error:
            raise KeyEncode(self.key, error) from error

    def decode(self, payload: Json) -> P:
        try:
            decoded: P = from_json(payload, self.type)
            return decoded
        except Exception as error:
            raise KeyDecode(self.key, error) from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r})"


class ScheduledActionSpec(_PayloadSpec[P]):
    """A kind of scheduled action: its handler runs once, in the given phase."""

    def __init__(self, key: str, phase: Phase, type: type[P] | Any = Any) -> None:
        super().__init__(key, type)
        self.phase = phase


class EffectSpec(_PayloadSpec[P]):
    """A kind of effect: its handler runs after the commit, and the run does not wait for it."""


class ScheduledAction(Value, frozen=True, kw_only=True):
    """An action waiting for its phase."""

    key: str
    phase: Phase
    payload: Json


class TypedEffect(Value, frozen=True, kw_only=True):
    """An effect waiting for its commit."""

    key: str
    payload: Json


class QueuedAction(Value, frozen=True, kw_only=True):
    """A scheduled action in the queue, under an id of its own."""

    id: int
    action: ScheduledAction


class FailedAction(Value, frozen=True, kw_only=True):
    """A scheduled action whose handler failed, and why."""

    id: int
    action: ScheduledAction
    error: str


# -- joining commands -------------------------------------------------------------------------


Strategy = Callable[[str], Merge]


def conflicting_key(batches: Sequence[MutationBatch], strategy: Strategy) -> str | None:
    """The first exclusive key that two of the batches touch, or `None`."""
    seen: set[str] = set()
    for batch in batches:
        mine = dict.fromkeys(batch.touched_keys)
        for name in mine:
            if name in seen and strategy(name) is Merge.EXCLUSIVE:
                return name
        seen.update(mine)
    return None


def merge_parallel(commands: Sequence[Command], strategy: Strategy) -> Command:
    """One command with the updates of all, in the given order.

    Raises:
        ParallelMergeConflict: two commands touch the same exclusive key.
        MutationBaseRevisionMismatch: the commands were made from different revisions.
    """
    if len(commands) > 1:
        key = conflicting_key([command.batch for command in commands], strategy)
        if key is not None:
            raise ParallelMergeConflict(key)
    return Command.join(commands)


class CommitEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of a commit hook.

    `skipped` names the keys whose updates had no effect: the reducer returned the old value.
    """

    previous_revision: int
    new_revision: int
    op_count: int
    snapshot: Any
    skipped: tuple[str, ...] = ()


# -- the scheduled actions that every agent handles -------------------------------------------


ADD_CONTEXT_MESSAGE: ScheduledActionSpec[ContextMessage] = ScheduledActionSpec(
    "runtime.add_context_message", Phase.BEFORE_INFERENCE, ContextMessage
)
"""Add a context message to the next request."""

SET_INFERENCE_OVERRIDE: ScheduledActionSpec[InferenceOverride] = ScheduledActionSpec(
    "runtime.set_inference_override", Phase.BEFORE_INFERENCE, InferenceOverride
)
"""Change parameters of the next request; of several overrides, the last wins field by field."""

EXCLUDE_TOOL: ScheduledActionSpec[str] = ScheduledActionSpec(
    "runtime.exclude_tool", Phase.BEFORE_INFERENCE, str
)
"""Do not offer a tool in the next request."""

INCLUDE_ONLY_TOOLS: ScheduledActionSpec[tuple[str, ...]] = ScheduledActionSpec(
    "runtime.include_only_tools", Phase.BEFORE_INFERENCE, tuple[str, ...]
)
"""Offer only these tools in the next request; several such lists are joined."""
