"""The rules for taking submissions. No I/O: the stores write the results."""

from __future__ import annotations

import msgspec

from awaken.core.lifecycle import CANCELLED
from awaken.core.principal import id_of
from awaken.core.run import RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.submissions import KEY_KEPT_MS, Submission, Submitted
from awaken.errors import KeyReused


class KeptKey(msgspec.Struct, frozen=True, gc=False):
    """The key of a submission, with a digest of what was asked and the answer."""

    asked: str
    run_id: str
    cursor: int
    at_ms: int

    def answer(self, submission: Submission) -> Submitted | None:
        """The answer to the first submission with this key, or `None` if the key is too old.

        Raises:
            KeyReused: something else was asked with it.
        """
        if self.at_ms < submission.at_ms - KEY_KEPT_MS:
            return None
        if self.asked != submission.asked:
            raise KeyReused(submission.thread_id, submission.key or "")
        return Submitted(
            thread_id=submission.thread_id, run_id=self.run_id, cursor=self.cursor, is_new=False
        )


def can_withdraw(owner: object | None, open_run_id: str | None) -> bool:
    """Whether the submitted runs of a thread can be ended without starting them.

    An owner without an open run may be starting one of them at this moment.
    """
    return owner is None or open_run_id is not None


def withdrawn(record: RunRecord, at_ms: int) -> RunRecord:
    """The record of a submitted run that was cancelled before it started."""
    return record.finish(at_ms, CANCELLED)


def steering(submission: Submission) -> ThreadCommand:
    """The command that gives the messages of a submission to the thread's open run."""
    return ThreadCommand(
        thread_id=submission.thread_id,
        kind=CommandKind.MESSAGES,
        messages=submission.messages,
        at_ms=submission.at_ms,
        by=id_of(submission.principal),
    )
