"""Errors of the typed state, and of the phases that change it."""

from __future__ import annotations

from awaken.errors.base import AwakenError, describe, text_of


class StateError(AwakenError):
    """A change of typed state, or a phase, was refused; the state did not change."""


class RevisionConflict(StateError):
    """An exclusive key has changed since the snapshot that the update was made from."""

    def __init__(self, *, expected: int, actual: int, key: str) -> None:
        super().__init__(
            f"state key {key!r} changed at revision {actual}, the update was made from {expected}: "
            "read a new snapshot and make the update again"
        )
        self.expected, self.actual, self.key = expected, actual, key


class MutationBaseRevisionMismatch(StateError):
    """Two batches made from different snapshots cannot be joined."""

    def __init__(self, left: int, right: int) -> None:
        super().__init__(
            f"batches were made from revisions {left} and {right}: join only batches of the same "
            "revision"
        )
        self.left, self.right = left, right


class ParallelMergeConflict(StateError):
    """Two commands made from the same snapshot write one exclusive key."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"state key {key!r} is exclusive and was written twice from one snapshot: "
            "make it Merge.COMMUTATIVE, or write it in one place only"
        )
        self.key = key


class UnknownKey(StateError):
    """A state key that is not registered, or a call or suspension that does not exist."""

    def __init__(self, key: str, what: str | None = None) -> None:
        super().__init__(
            what
            or f"state key {key!r} is not registered: give it to the agent, as in "
            "Agent(state=[…]), or register it in a plugin of this agent"
        )
        self.key = key


class KeyAlreadyRegistered(StateError):
    """A second state key with the same name."""

    def __init__(self, key: str) -> None:
        super().__init__(f"state key {key!r} is already registered: pick another name")
        self.key = key


class KeyDecode(StateError):
    """A stored value, a payload or a config section does not fit its type."""

    def __init__(self, key: str, why: object) -> None:
        super().__init__(f"cannot decode {key!r}: {describe(why)}")
        self.key = key


class KeyEncode(StateError):
    """A value cannot be encoded as JSON, or could not be read back from it."""

    def __init__(self, key: str, why: object) -> None:
        super().__init__(f"cannot encode {key!r}: {describe(why)}")
        self.key = key


class PluginAlreadyInstalled(StateError):
    """A plugin was installed twice in one state store."""

    def __init__(self, plugin: str) -> None:
        super().__init__(f"plugin {plugin!r} is already installed")
        self.plugin = plugin


class PluginNotInstalled(StateError):
    """A plugin to uninstall is not installed."""

    def __init__(self, plugin: str) -> None:
        super().__init__(f"plugin {plugin!r} is not installed")
        self.plugin = plugin


class HandlerAlreadyRegistered(StateError):
    """Two plugins register a handler for the same scheduled action."""

    def __init__(self, key: str) -> None:
        super().__init__(f"scheduled action {key!r} already has a handler")
        self.key = key


class EffectHandlerAlreadyRegistered(StateError):
    """Two plugins register a handler for the same effect."""

    def __init__(self, key: str) -> None:
        super().__init__(f"effect {key!r} already has a handler")
        self.key = key


class ToolAlreadyRegistered(StateError):
    """Two plugins register a tool with the same id."""

    def __init__(self, tool_id: str) -> None:
        super().__init__(f"tool {tool_id!r} is already registered: rename one of the two")
        self.tool_id = tool_id


class UnknownScheduledActionHandler(StateError):
    """An action was scheduled that no plugin of the agent handles."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"no handler for scheduled action {key!r}: give the agent the plugin that has it"
        )
        self.key = key


class UnknownEffectHandler(StateError):
    """An effect was emitted that no plugin of the agent handles."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no handler for effect {key!r}: give the agent the plugin that has it")
        self.key = key


class PhaseRunLoopExceeded(StateError):
    """Actions of a phase kept scheduling actions of the same phase."""

    def __init__(self, phase: str, max_rounds: int) -> None:
        super().__init__(
            f"phase '{phase}' still had actions after {max_rounds} rounds: a handler must not "
            "schedule an action of its own phase each time"
        )
        self.phase, self.max_rounds = phase, max_rounds


class InvalidTransition(StateError):
    """A run's record cannot go from its status to the one asked for."""

    def __init__(self, run_id: str, status: str, target: str) -> None:
        super().__init__(
            f"run {run_id!r} is {status} and cannot become {target}: load its record again, and "
            "start a new run if this one is over"
        )
        self.run_id, self.status, self.target = run_id, status, target


class ReducerFailed(StateError):
    """A key's `apply` raised; the whole batch was dropped."""

    def __init__(self, key: str, why: object) -> None:
        raised = text_of(why, repr)
        super().__init__(f"reducer of state key {key!r} raised {raised}: nothing was changed")
        self.key = key


class HookFailed(StateError):
    """A plugin's hook or gate raised; nothing of its phase was committed."""

    def __init__(self, plugin: str, phase: str, why: object) -> None:
        super().__init__(f"plugin {plugin!r} raised {text_of(why, repr)} in phase '{phase}'")
        self.plugin, self.phase = plugin, phase


class Cancelled(StateError):
    """The run's token was cancelled."""

    def __init__(self) -> None:
        super().__init__("cancelled")
