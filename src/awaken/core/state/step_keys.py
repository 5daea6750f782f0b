"""The state keys by which hooks shape the next model request: messages, tools, parameters."""

from __future__ import annotations

import msgspec

from awaken.core.context_message import ContextMessage, ThrottleEntry
from awaken.core.inference import InferenceOverride
from awaken.core.state.key import BuiltInKey, Merge, StateKey
from awaken.core.value import Value

_replace = msgspec.structs.replace

# -- context messages -------------------------------------------------------------------------


class NoteThrottle(Value, frozen=True, kw_only=True):
    """Record the step in which a context message was last accepted."""

    key: str
    entry: ThrottleEntry


CONTEXT_THROTTLE: StateKey[dict[str, ThrottleEntry], NoteThrottle] = BuiltInKey(
    "__runtime.context_throttle",
    initial=dict,
    apply=lambda value, note: {**value, note.key: note.entry},
    type=dict[str, ThrottleEntry],
)


class UpsertContext(Value, frozen=True, kw_only=True):
    """Add a message, or replace the one with the same key."""

    message: ContextMessage


class RemoveContext(Value, frozen=True, kw_only=True):
    """Remove the message with this key; with `prefix`, all whose key starts with it."""

    key: str
    prefix: bool = False


class AfterEmit(Value, frozen=True, kw_only=True):
    """Remove the messages that were meant for one request only: the request was sent."""


class ClearContext(Value, frozen=True, kw_only=True):
    """Remove all messages."""


ContextUpdate = UpsertContext | RemoveContext | AfterEmit | ClearContext


def _context(value: dict[str, ContextMessage], update: ContextUpdate) -> dict[str, ContextMessage]:
    match update:
        case UpsertContext(message=message):
            return {**value, message.key: message}
        case RemoveContext(key=key, prefix=prefix):
            return {
                k: m for k, m in value.items() if not (k == key or (prefix and k.startswith(key)))
            }
        case AfterEmit():
            return {k: m for k, m in value.items() if m.persistent and not m.consume_after_emit}
        case ClearContext():
            return {}


CONTEXT_MESSAGES: StateKey[dict[str, ContextMessage], ContextUpdate] = BuiltInKey(
    "__runtime.context_message_store",
    initial=dict,
    apply=_context,
    merge=Merge.COMMUTATIVE,
    type=dict[str, ContextMessage],
)


# -- tools and parameters of one step ---------------------------------------------------------


class ToolFilter(Value, frozen=True, kw_only=True):
    """The tools this step may offer: those on any include list, minus the excluded ones.

    Without include lists every tool is offered, minus the excluded ones.
    """

    excluded: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    include_only: tuple[tuple[str, ...], ...] = msgspec.field(default_factory=lambda: ())

    def passes(self, tool_id: str) -> bool:
        if self.include_only and not any(tool_id in ids for ids in self.include_only):
            return False
        return tool_id not in self.excluded


class ExcludeTool(Value, frozen=True, kw_only=True):
    """Exclude one tool from this step."""

    tool_id: str


class IncludeOnly(Value, frozen=True, kw_only=True):
    """Add an include list: the step offers these tools and those of the other lists."""

    tool_ids: tuple[str, ...]


class ClearFilter(Value, frozen=True, kw_only=True):
    """Remove all lists: every tool is offered again."""


def _filter(value: ToolFilter, update: ExcludeTool | IncludeOnly | ClearFilter) -> ToolFilter:
    match update:
        case ExcludeTool(tool_id=tool_id):
            return _replace(value, excluded=(*value.excluded, tool_id))
        case IncludeOnly(tool_ids=ids):
            return _replace(value, include_only=(*value.include_only, ids))
        case ClearFilter():
            return ToolFilter()


TOOL_FILTER: StateKey[ToolFilter, ExcludeTool | IncludeOnly | ClearFilter] = BuiltInKey(
    "__runtime.tool_filter_state",
    initial=ToolFilter,
    apply=_filter,
    merge=Merge.COMMUTATIVE,
    persistent=False,
)


INFERENCE_OVERRIDE: StateKey[InferenceOverride, InferenceOverride | None] = BuiltInKey(
    "__runtime.inference_override_state",
    initial=InferenceOverride,
    apply=lambda value, update: InferenceOverride() if update is None else value.merge(update),
    merge=Merge.COMMUTATIVE,
    persistent=False,
)
