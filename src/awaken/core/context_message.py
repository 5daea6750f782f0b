"""Context messages: a plugin adds them to requests; they are not in the message log."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Self

import msgspec

from awaken.core.message import Message, Role, Text, Visibility
from awaken.core.value import Value
from awaken.ids import UUID7, Ids

if TYPE_CHECKING:
    from awaken.core.transcript import MessageSequence


class ContextTarget(StrEnum):
    """The place of a context message in the request."""

    SYSTEM = "system"
    SESSION = "session"
    CONVERSATION = "conversation"
    SUFFIX_SYSTEM = "suffix_system"


_ORDER = {target: index for index, target in enumerate(ContextTarget)}


class ContextMessage(Value, frozen=True, kw_only=True):
    """A message that a plugin adds to requests; a new one with the same `key` replaces it."""

    key: str
    role: Role
    content: tuple[Text, ...]
    visibility: Visibility
    target: ContextTarget
    cooldown_turns: int
    persistent: bool = msgspec.field(default_factory=bool)
    consume_after_emit: bool = msgspec.field(default_factory=bool)
    priority: int = msgspec.field(default_factory=int)

    @classmethod
    def _make(
        cls,
        key: str,
        text: str,
        target: ContextTarget,
        *,
        visibility: Visibility = Visibility.INTERNAL,
        cooldown_turns: int = 0,
        persistent: bool = False,
        consume_after_emit: bool = False,
        priority: int = 0,
    ) -> Self:
        return cls(
            key=key,
            role=Role.SYSTEM,
            content=(Text(text=text),),
            visibility=visibility,
            target=target,
            cooldown_turns=cooldown_turns,
            persistent=persistent,
            consume_after_emit=consume_after_emit,
            priority=priority,
        )

    @classmethod
    def system(cls, key: str, text: str, *, cooldown_turns: int = 0, priority: int = 0) -> Self:
        return cls._make(
            key, text, ContextTarget.SYSTEM, cooldown_turns=cooldown_turns, priority=priority
        )

    @classmethod
    def suffix_system(
        cls, key: str, text: str, *, cooldown_turns: int = 0, priority: int = 0
    ) -> Self:
        return cls._make(
            key, text, ContextTarget.SUFFIX_SYSTEM, cooldown_turns=cooldown_turns, priority=priority
        )

    @classmethod
    def session(cls, key: str, text: str, *, cooldown_turns: int = 0, priority: int = 0) -> Self:
        return cls._make(
            key, text, ContextTarget.SESSION, cooldown_turns=cooldown_turns, priority=priority
        )

    @classmethod
    def conversation(
        cls, key: str, text: str, *, role: Role = Role.USER, cooldown_turns: int = 0
    ) -> Self:
        made = cls._make(
            key,
            text,
            ContextTarget.CONVERSATION,
            visibility=Visibility.ALL,
            cooldown_turns=cooldown_turns,
        )
        return msgspec.structs.replace(made, role=role)

    @classmethod
    def system_persistent(cls, key: str, text: str) -> Self:
        return cls._make(key, text, ContextTarget.SYSTEM, persistent=True)

    @classmethod
    def emit_once(cls, key: str, text: str, target: ContextTarget = ContextTarget.SYSTEM) -> Self:
        return cls._make(key, text, target, persistent=True, consume_after_emit=True)

    @property
    def sort_key(self) -> tuple[int, int, str]:
        return _ORDER[self.target], self.priority, self.key

    def content_hash(self) -> str:
        import hashlib  # noqa: PLC0415  # few agents have such messages: see `codec.digest`

        joined = "\x00".join(block.text for block in self.content)
        return hashlib.blake2b(joined.encode(), digest_size=8).hexdigest()

    def to_message(self, ids: Ids = UUID7) -> Message:
        return Message(
            id=ids.new(), role=self.role, content=self.content, visibility=self.visibility
        )


class ThrottleEntry(Value, frozen=True, kw_only=True):
    """The step in which a key was last accepted, and the hash of its content."""

    last_step: int
    content_hash: str


def accepts(message: ContextMessage, seen: ThrottleEntry | None, step: int) -> bool:
    """Whether a message may be shown in `step`: its cooldown is over or its content changed."""
    return (
        message.cooldown_turns == 0
        or seen is None
        or seen.content_hash != message.content_hash()
        or step - seen.last_step >= message.cooldown_turns
    )


def place(
    base: tuple[Message, ...],
    history: MessageSequence,
    context: Sequence[ContextMessage],
    ids: Ids = UUID7,
) -> MessageSequence:
    """The request's messages: base prompt, history, and each context message at its target."""
    if not context:
        return history.around(base, ())
    by_target: dict[ContextTarget, list[Message]] = {target: [] for target in ContextTarget}
    for entry in context:
        by_target[entry.target].append(entry.to_message(ids))
    head = base + tuple(by_target[ContextTarget.SYSTEM])
    middle = (*by_target[ContextTarget.SESSION], *by_target[ContextTarget.CONVERSATION])
    tail = tuple(by_target[ContextTarget.SUFFIX_SYSTEM])
    if middle:
        leading = 0
        while leading < len(history) and history[leading].role is Role.SYSTEM:
            leading += 1
        history = history.with_inserted(leading, middle)
    return history.around(head, tail)
