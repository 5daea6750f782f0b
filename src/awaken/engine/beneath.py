"""Calls that end without their delegate's answer: what the delegate has done, and its cancel."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from awaken.core.backend import DurableDelegates
from awaken.core.store.commands import ThreadCommand
from awaken.core.suspension import Asker
from awaken.core.thread_ids import child_ids
from awaken.engine.live_run import LiveRun
from awaken.errors import StoreError

log = logging.getLogger("awaken.loop")


async def done_beneath(delegates: DurableDelegates | None, thread_id: str, key: str) -> str | None:
    """What the delegate of the call `key` of a thread has done, as a text for the model.

    Returns `None` if the delegate has done nothing. If the store is away, the text says that it is
    unknown.
    """
    if delegates is None:
        return None
    try:
        return await delegates.done_by(thread_id, key)
    except StoreError as error:
        log.warning("what was done for call %s cannot be read: %s", key, error)
        return "it is unknown what it had done before that"


def with_done(text: str, done: str | None) -> str:
    """The text of a call's result, followed by what its delegate has done, if anything."""
    return text if done is None else f"{text}; {done}"


def build_cancels(run_ids: Iterable[str], at_ms: int) -> list[ThreadCommand]:
    """The commands that cancel delegates. The store drops a command to a delegate that never
    started or has ended, so the ids need not be checked before."""
    return [ThreadCommand.cancel(run_id, run_id, at_ms=at_ms) for run_id in run_ids]


def may_delegate(run: LiveRun, tool_name: str) -> bool:
    """Whether a call of the tool may have started a delegate: the tool declares `runs_agent`, or
    the agent does not have the tool any more."""
    tool = run.agent.tools.get(tool_name)
    return tool is None or getattr(tool, "runs_agent", False) is True


def cancel_delegate(run: LiveRun, tool_name: str, key: str, asker: Asker | None = None) -> None:
    """Let the next commit cancel the delegate that the call `key` may have started; `asker` names
    the one that the call asked for."""
    children: Sequence[str] = ()
    if asker is not None:
        children = (asker.run_id,)
    elif key and may_delegate(run, tool_name):
        children = child_ids(run.identity.thread_id, key)
    run.journal.extras.sends.extend(build_cancels(children, run.clock.now_ms()))
