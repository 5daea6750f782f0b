"""Merges the messages that a client has with those of the log. Pure.

When its connection breaks or it stops reading, a client keeps the part of an answer that it has
received. It sends that with its next request, while the log has the whole answer, or another one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from awaken.server.protocols.ag_ui.messages import WireMessage

_OF_AGENT = ("assistant", "reasoning")


def is_current(messages: Sequence[WireMessage], log: Sequence[WireMessage]) -> bool:
    """Whether the client has the same answers as the log."""
    return _answers(reconcile(messages, log)) == _answers(messages)


def reconcile(messages: Sequence[WireMessage], log: Sequence[WireMessage]) -> list[WireMessage]:
    """The messages of a client, brought up to date with the log.

    Between two messages that both the client and the log have, answers of the log replace those of
    the client. What the client has before the first such message stays: its list may reach further
    back than the compared part of the log, or begin with a greeting of its own. An answer behind
    the last such message, which the log does not have, was taken back.
    """
    positions = {str(message.get("id")): position for position, message in enumerate(log)}
    behind = next((positions[id] for id in map(_id, messages) if id in positions), 0)
    found: list[WireMessage] = []
    own: list[WireMessage] = []
    for message in messages:
        position = positions.get(_id(message))
        if position is None:
            own.append(message)
            continue
        found += _between(own, log[behind:position])
        found.append(log[position] if _differs(message, log[position]) else message)
        behind, own = max(behind, position + 1), []
    missing = log[behind:]
    remaining = own if behind == 0 else [message for message in own if not _is_answer(message)]
    return [*found, *_between(remaining, missing)]


def _between(own: Sequence[WireMessage], missing: Sequence[WireMessage]) -> list[WireMessage]:
    """The messages between two that both have: those of the client, unless the log has answers
    there."""
    if not any(_is_answer(message) for message in missing):
        return [*own, *missing]
    results = {message.get("toolCallId") for message in missing if message.get("role") == "tool"}
    return [*(m for m in own if not _is_replaced(m, results)), *missing]


def _is_replaced(message: WireMessage, results: Collection[object]) -> bool:
    return _is_answer(message) or (
        message.get("role") == "tool" and message.get("toolCallId") in results
    )


def _is_answer(message: WireMessage) -> bool:
    """Whether the agent of the thread has written the message, not one of its delegates."""
    return message.get("role") in _OF_AGENT and "subagentRunId" not in message


def _differs(message: WireMessage, logged: WireMessage) -> bool:
    return message.get("role") == "assistant" and _content(message) != _content(logged)


def _answers(messages: Sequence[WireMessage]) -> list[object]:
    return [
        (_id(message), *_content(message))
        for message in messages
        if message.get("role") == "assistant" and "subagentRunId" not in message
    ]


def _content(message: WireMessage) -> tuple[object, frozenset[str]]:
    """The text of an answer, and the ids of its calls."""
    calls = message.get("toolCalls")
    ids = (call.get("id") for call in calls if isinstance(call, dict)) if calls else ()
    return message.get("content") or "", frozenset(str(id) for id in ids)


def _id(message: WireMessage) -> str:
    return str(message.get("id"))
