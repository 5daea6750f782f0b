"""The rules for rewinding threads. No I/O: the stores write the results."""

from __future__ import annotations

import msgspec

from awaken.core.store.commits import KEPT_IN_REWINDS, ThreadCommit
from awaken.core.store.submissions import Submission, SubmitMode
from awaken.errors import InvalidRecord


def check_rewind(commit: ThreadCommit) -> None:
    """Check the position that a commit rewinds its thread to, if it does.

    Raises:
        InvalidRecord: there is no message behind that position.
    """
    to = commit.rewinds_to
    if to is not None and not 0 <= to < commit.expected_length:
        raise InvalidRecord(
            f"thread {commit.thread_id!r} cannot be rewound to position {to}: its log has "
            f"{commit.expected_length} messages"
        )


def rewound_state(
    then: dict[str, msgspec.Raw], now: dict[str, msgspec.Raw]
) -> dict[str, msgspec.Raw]:
    """The state after a rewind: as it was then, with the keys that a rewind leaves alone."""
    kept = {key: now[key] for key in KEPT_IN_REWINDS & now.keys()}
    return {key: value for key, value in then.items() if key not in KEPT_IN_REWINDS} | kept


def needs_quiet(submission: Submission) -> bool:
    """Whether a submission is refused while a run of its thread is open or waits to start.

    A run must not be rewound while it goes on: it is cancelled first, or it is in the way.
    """
    if submission.mode is SubmitMode.REFUSE:
        return True
    return submission.rewind_to is not None and submission.mode is not SubmitMode.INTERRUPT
