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
from awaken.testing.chaos.store_dump import ThreadDump

_RUNTIME_KEYS = ("__runtime.", "background_", "agent_handoff")
"""Prefixes of state keys whose values contain ids and times."""

_TASK_EVENT = "<background-task-event "
_TASK_END = ":end"
_TASK_ID = re.compile(r"\bbg_\d+")


def differences(
    undisturbed: ThreadDump,
    final: ThreadDump,
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
        *_compare_logs(undisturbed, final, open_calls, volatile),
        *_compare_runs(undisturbed, final, open_calls),
    ]
    then, now = _select_user_state(undisturbed), _select_user_state(final)
    if not open_calls and dumps(then) != dumps(now):
        found.append(f"the thread's state is {dumps_text(now)}, undisturbed {dumps_text(then)}")
    before, after = _group_by_agent(undisturbed), _group_by_agent(final)
    for agent in sorted(before.keys() | after.keys()):
        ones, others = before.get(agent, []), after.get(agent, [])
        if len(ones) != len(others):
            found.append(f"{len(others)} threads of {agent}, undisturbed {len(ones)}")
        for one, other in zip(ones, others, strict=False):
            texts = differences(one, other, open_calls, volatile)
            found.extend(f"{agent}: {text}" for text in texts)
    return found


def _group_by_agent(dump: ThreadDump) -> dict[str, list[ThreadDump]]:
    found: dict[str, list[ThreadDump]] = {}
    for child in dump.children:
        found.setdefault(child.agent_id, []).append(child)
    return found


# -- logs -------------------------------------------------------------------------------------


def _compare_logs(
    undisturbed: ThreadDump,
    final: ThreadDump,
    open_calls: Collection[str],
    volatile: Collection[str],
) -> Iterator[str]:
    before, after = effective_view(undisturbed.messages), effective_view(final.messages)
    reports = [message for message in before if _is_task_report(message)]
    if reports or any(map(_is_task_report, after)):
        now = [message for message in after if _is_task_report(message)]
        yield from _compare_task_reports(reports, now, open_calls)
        before, after = _drop_task_reports(before), _drop_task_reports(after)
        if len(before) != len(after):
            yield f"the model sees {len(after)} messages, undisturbed {len(before)}"
    elif len(undisturbed.messages) != len(final.messages):
        yield f"the log has {len(final.messages)} messages, undisturbed {len(undisturbed.messages)}"
    results = _index_results(after)
    for position, (one, other) in enumerate(zip(before, after, strict=False), start=1):
        key, tool = results.get(other.id or "", ("", ""))
        whole = key not in open_calls and tool not in volatile
        if _normalize(one, content=whole) != _normalize(other, content=whole):
            yield f"message {position} is {_describe(other)}, undisturbed {_describe(one)}"


def _index_results(log: Sequence[Message]) -> dict[str, tuple[str, str]]:
    """The ledger key and the tool of each tool message, by its id."""
    found: dict[str, tuple[str, str]] = {}
    called: dict[str, tuple[str, str]] = {}
    for message in log:
        for index, call in enumerate(message.tool_calls or ()):
            called[call.id] = call_key(message.id or "", index), call.name
        if message.role is Role.TOOL and message.id and message.tool_call_id in called:
            found[message.id] = called[message.tool_call_id]
    return found


def _normalize(message: Message, *, content: bool = True) -> str:
    """The text of a message without what may differ: ids, metadata, and the numbers of tasks, which
    follow the order in which their calls happened to start."""
    normal = msgspec.structs.replace(message, id=None, metadata=None)
    written = dumps(normal if content else msgspec.structs.replace(normal, content=()))
    return _TASK_ID.sub("bg_", written.decode())


def _describe(message: Message) -> str:
    calls = ", ".join(call.name for call in message.tool_calls or ())
    return f"{message.role} {message.text()!r}" + (f" calling {calls}" if calls else "")


def _is_task_report(message: Message) -> bool:
    """Whether a message is a report of a background task."""
    return (
        message.role is Role.USER
        and not message.is_visible_user()
        and message.text().startswith(_TASK_EVENT)
    )


def _drop_task_reports(log: Sequence[Message]) -> list[Message]:
    """The messages without reports of tasks. An answer that repeats the answer before it is left
    out."""
    kept: list[Message] = []
    for message in log:
        again = kept and message.role is Role.ASSISTANT and not message.tool_calls
        if not _is_task_report(message) and not (
            again and _normalize(kept[-1]) == _normalize(message)
        ):
            kept.append(message)
    return kept


def _compare_task_reports(
    before: Sequence[Message], after: Sequence[Message], open_calls: Collection[str]
) -> Iterator[str]:
    if len(before) != len(after):
        yield f"tasks told {len(after)} things, undisturbed {len(before)}"
        return
    cut_short = [message for message in after if _parse_task_key(message) in open_calls]
    rest = [_normalize(message) for message in before]
    for message in after:
        if message in cut_short:
            continue
        if _normalize(message) not in rest:
            yield f"a task told {message.text()!r}, which it did not undisturbed"
        else:
            rest.remove(_normalize(message))


def _parse_task_key(message: Message) -> str:
    """The key of the call that started the task whose end a message reports."""
    return task_key((message.id or "").removesuffix(_TASK_END))


# -- runs -------------------------------------------------------------------------------------


def _compare_runs(
    undisturbed: ThreadDump, final: ThreadDump, open_calls: Collection[str]
) -> Iterator[str]:
    if len(undisturbed.runs) != len(final.runs):
        yield f"{len(final.runs)} runs, undisturbed {len(undisturbed.runs)}"
    has_reports = any(
        _is_task_report(message) for message in (*undisturbed.messages, *final.messages)
    )
    for run, again in zip(undisturbed.runs, final.runs, strict=False):
        for name in _list_compared_fields(again, open_calls, has_reports=has_reports):
            if (now := getattr(again, name)) != (then := getattr(run, name)):
                yield f"the run's {name} is {now!r}, undisturbed {then!r}"
        if not open_calls and not has_reports and run.output_tokens != again.output_tokens:
            yield f"{again.output_tokens} tokens counted, undisturbed {run.output_tokens}"


def _list_compared_fields(
    run: RunRecord, open_calls: Collection[str], *, has_reports: bool
) -> Iterator[str]:
    """The fields of a run that must be the same."""
    yield from ("agent_id", "status")
    if task_key(run.run_id) not in open_calls:
        yield from ("termination_reason", "final_output")
    if not has_reports:
        yield "steps"


def _select_user_state(dump: ThreadDump) -> dict[str, Json]:
    """The state of tools and plugins, without the runtime's own keys."""
    stored = dump.state.extensions if dump.state else {}
    return {name: value for name, value in stored.items() if not name.startswith(_RUNTIME_KEYS)}
