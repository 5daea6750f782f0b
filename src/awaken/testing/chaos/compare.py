"""Comparing threads with those of an undisturbed conversation. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import msgspec

from awaken.codec import Json, dumps, dumps_text
from awaken.core.message import Message, Role
from awaken.core.run import RunRecord
from awaken.core.store.commits import call_key
from awaken.core.thread_ids import task_key
from awaken.core.transcript import effective_view
from awaken.testing.chaos.store_dump import Picture

_OURS = ("__runtime.", "background_", "agent_handoff")
"""Prefixes of state keys whose values contain ids and times."""

_TASK_EVENT = "<background-task-event "
_TASK_END = ":end"
_TASK_ID = re.compile(r"\bbg_\d+")


def differences(
    undisturbed: Picture,
    final: Picture,
    open_calls: Collection[str],
    volatile: Collection[str] = (),
) -> list[str]:
    """The differences between a recovered thread tree and an undisturbed one, apart from ids and
    times.

    Messages are compared as a model sees them: a result that came late stands beside its call.
    Reports of background tasks may come at any time, and the model may have to answer once more for
    them. Child threads are matched by their agent and their order.

    Args:
        open_calls: the keys of calls that were open at a kill; their results may differ.
        volatile: tools whose results contain ids or times.
    """
    found = [
        *_log_differences(undisturbed, final, open_calls, volatile),
        *_run_differences(undisturbed, final, open_calls),
    ]
    then, now = _user_state(undisturbed), _user_state(final)
    if not open_calls and dumps(then) != dumps(now):
        found.append(f"the thread's state is {dumps_text(now)}, undisturbed {dumps_text(then)}")
    before, after = _by_agent(undisturbed), _by_agent(final)
    for agent in sorted(before.keys() | after.keys()):
        ones, others = before.get(agent, []), after.get(agent, [])
        if len(ones) != len(others):
            found.append(f"{len(others)} threads of {agent}, undisturbed {len(ones)}")
        for one, other in zip(ones, others, strict=False):
            texts = differences(one, other, open_calls, volatile)
            found.extend(f"{agent}: {text}" for text in texts)
    return found


def _by_agent(picture: Picture) -> dict[str, list[Picture]]:
    found: dict[str, list[Picture]] = {}
    for child in picture.children:
        found.setdefault(child.agent_id, []).append(child)
    return found


# -- logs -------------------------------------------------------------------------------------


def _log_differences(
    undisturbed: Picture, final: Picture, open_calls: Collection[str], volatile: Collection[str]
) -> Iterator[str]:
    before, after = effective_view(undisturbed.messages), effective_view(final.messages)
    told = [message for message in before if _is_event(message)]
    if told or any(map(_is_event, after)):
        now = [message for message in after if _is_event(message)]
        yield from _other_events(told, now, open_calls)
        before, after = _without_events(before), _without_events(after)
        if len(before) != len(after):
            yield f"the model sees {len(after)} messages, undisturbed {len(before)}"
    elif len(undisturbed.messages) != len(final.messages):
        yield f"the log has {len(final.messages)} messages, undisturbed {len(undisturbed.messages)}"
    results = _results(after)
    for place, (one, other) in enumerate(zip(before, after, strict=False), start=1):
        key, tool = results.get(other.id or "", ("", ""))
        whole = key not in open_calls and tool not in volatile
        if _bare(one, content=whole) != _bare(other, content=whole):
            yield f"message {place} is {_words(other)}, undisturbed {_words(one)}"


def _results(log: Sequence[Message]) -> dict[str, tuple[str, str]]:
    """The ledger key and the tool of each tool message, by its id."""
    found: dict[str, tuple[str, str]] = {}
    called: dict[str, tuple[str, str]] = {}
    for message in log:
        for index, call in enumerate(message.tool_calls or ()):
            called[call.id] = call_key(message.id or "", index), call.name
        if message.role is Role.TOOL and message.id and message.tool_call_id in called:
            found[message.id] = called[message.tool_call_id]
    return found


def _bare(message: Message, *, content: bool = True) -> str:
    """The message as far as it is compared. Tasks are numbered as their calls happen to start."""
    bare = msgspec.structs.replace(message, id=None, metadata=None)
    written = dumps(bare if content else msgspec.structs.replace(bare, content=()))
    return _TASK_ID.sub("bg_", written.decode())


def _words(message: Message) -> str:
    calls = ", ".join(call.name for call in message.tool_calls or ())
    return f"{message.role} {message.text()!r}" + (f" calling {calls}" if calls else "")


def _is_event(message: Message) -> bool:
    """Whether a message is a report of a background task."""
    return (
        message.role is Role.USER
        and not message.is_visible_user()
        and message.text().startswith(_TASK_EVENT)
    )


def _without_events(log: Sequence[Message]) -> list[Message]:
    """The messages without reports of tasks; an answer that only repeats the one before counts
    once."""
    kept: list[Message] = []
    for message in log:
        again = kept and message.role is Role.ASSISTANT and not message.tool_calls
        if not _is_event(message) and not (again and _bare(kept[-1]) == _bare(message)):
            kept.append(message)
    return kept


def _other_events(
    before: Sequence[Message], after: Sequence[Message], open_calls: Collection[str]
) -> Iterator[str]:
    if len(before) != len(after):
        yield f"tasks told {len(after)} things, undisturbed {len(before)}"
        return
    cut_short = [message for message in after if _task(message) in open_calls]
    rest = [_bare(message) for message in before]
    for message in after:
        if message in cut_short:
            continue
        if _bare(message) not in rest:
            yield f"a task told {message.text()!r}, which it did not undisturbed"
        else:
            rest.remove(_bare(message))


def _task(message: Message) -> str:
    """The key of the call that started the task whose end a message reports."""
    return task_key((message.id or "").removesuffix(_TASK_END))


# -- runs -------------------------------------------------------------------------------------


def _run_differences(
    undisturbed: Picture, final: Picture, open_calls: Collection[str]
) -> Iterator[str]:
    if len(undisturbed.runs) != len(final.runs):
        yield f"{len(final.runs)} runs, undisturbed {len(undisturbed.runs)}"
    told = any(_is_event(message) for message in (*undisturbed.messages, *final.messages))
    for run, again in zip(undisturbed.runs, final.runs, strict=False):
        for name in _fields(again, open_calls, told=told):
            if (now := getattr(again, name)) != (then := getattr(run, name)):
                yield f"the run's {name} is {now!r}, undisturbed {then!r}"
        if not open_calls and not told and run.output_tokens != again.output_tokens:
            yield f"{again.output_tokens} tokens counted, undisturbed {run.output_tokens}"


def _fields(run: RunRecord, open_calls: Collection[str], *, told: bool) -> Iterator[str]:
    """The fields of a run that must be the same."""
    yield from ("agent_id", "status")
    if task_key(run.run_id) not in open_calls:
        yield from ("termination_reason", "final_output")
    if not told:
        yield "steps"


def _user_state(picture: Picture) -> dict[str, Json]:
    """The state of tools and plugins, without the runtime's own keys."""
    stored = picture.state.extensions if picture.state else {}
    return {name: value for name, value in stored.items() if not name.startswith(_OURS)}
