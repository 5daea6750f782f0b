"""A submission as the rows of a database, and which runs a node claims next."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from awaken.core.store.commands import Submission, ThreadCommand
from awaken.stores.rules import steering_command
from awaken.stores.sql.delta import encode_row


class PackedSubmission(NamedTuple):
    """A submission with its rows encoded."""

    submission: Submission
    record: bytes
    command: bytes
    steering_command: bytes


def pack_submission(submission: Submission) -> PackedSubmission:
    """
    Raises:
        Serialization: a value in it cannot be encoded, or could not be read back.
    """
    what = f"submission to thread {submission.thread_id!r}"
    return PackedSubmission(
        submission,
        encode_row(submission.record(), what),
        encode_row(ThreadCommand.run(submission), what),
        encode_row(steering_command(submission), what),
    )


class Wanted(NamedTuple):
    """Which runs a node would claim next; see `Commits.claim_next`."""

    agents: Collection[str]
    limit: int
    at_ms: int
    overdue_ms: int
    skip: Collection[str]
