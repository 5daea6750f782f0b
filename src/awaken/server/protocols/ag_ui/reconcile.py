"""What a client should have, from the messages that it has and those of the log. Pure.

A client keeps what it was told of an answer when its connection breaks or it stops reading, and
sends that with its next request, while the log has all of the answer, or another one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from awaken.server.protocols.ag_ui.messages import WireMessage

_OF_AGENT = ("assistant", "reasoning")


def is_current(held: Sequence[WireMessage], log: Sequence[WireMessage]) -> bool:
    """Whether the client has the answers of the log as they are there."""
    return _answers(reconcile(held, log)) == _answers(held)


def reconcile(held: Sequence[WireMessage], log: Sequence[WireMessage]) -> list[WireMessage]:
    """The messages of a client, brought up to date with the log.

    Between two messages that the client has and the log, too, answers of the log replace those of
    the client. What the client has before the first such message stays: its list may reach
    further back than the log that is compared, or begin with a greeting of its own. An answer
    behind the last one, which the log does not have, was taken back.
    """
    places = {str(message.get("id")): place for place, message in enumerate(log)}
    behind = next((places[id] for id in map(_id, held) if id in places), 0)
    found: list[WireMessage] = []
    own: list[WireMessage] = []
    for message in held:
        place = places.get(_id(message))
        if place is None:
            own.append(message)
            continue
        found += _between(own, log[behind:place])
        found.append(log[place] if _differs(message, log[place]) else message)
        behind, own = max(behind, place + 1), []
    missing = log[behind:]
    kept = own if behind == 0 else [message for message in own if not _is_answer(message)]
    return [*found, *_between(kept, missing)]


def _between(own: Sequence[WireMessage], missing: Sequence[WireMessage]) -> list[WireMessage]:
    """What stands between two messages that both have: what the client has there, unless the log
    has answers in its place."""
    if not any(_is_answer(message) for message in missing):
        return [*own, *missing]
    results = {message.get("toolCallId") for message in missing if message.get("role") == "tool"}
    return [*(m for m in own if not _is_replaced(m, results)), *missing]


def _is_replaced(message: WireMessage, results: Collection[object]) -> bool:
    return _is_answer(message) or (
        message.get("role") == "tool" and message.get("toolCallId") in results
    )


def _is_answer(message: WireMessage) -> bool:
    """Whether it is what the agent of the thread has said, not one of its delegates."""
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
