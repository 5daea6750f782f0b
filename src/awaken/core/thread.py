"""Threads: conversations with one message log each; and their metadata.

Metadata is written by people and programs: a thread's title, its labels, and its user. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from awaken.codec import Json, dumps
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord
from awaken.core.value import Value
from awaken.errors import ConfigError

MAX_METADATA = 64 * 1024
"""The most bytes of a thread's metadata: every list of threads has it."""
LONGEST_LABEL = 200
"""How many characters the name and the value of a label may have."""


class ThreadMetadata(Value, frozen=True, kw_only=True):
    """The metadata of a thread; `revision` counts how often it was changed.

    `labels` are for filters, `custom` is for anything else a program wants to keep with the thread.
    `resource_id` names what the thread is about, in the program's own words. `user` is the end user
    it belongs to, `created_by` the id of the principal that began it.
    """

    title: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    custom: dict[str, Json] = msgspec.field(default_factory=dict)
    resource_id: str | None = None
    user: str | None = None
    created_by: str | None = None
    revision: int = 0


NO_METADATA = ThreadMetadata()

# Bound once: on Python 3.11 reaching a member through its enum costs as much as a call.
_RUNNING = RunStatus.RUNNING
_DONE = RunStatus.DONE
_CREATED = RunStatus.CREATED


class Thread(Value, frozen=True, kw_only=True):
    """The head of a thread; timestamps are in milliseconds.

    `active_at` is when a run of it last started, paused or ended (without runs, when the thread was
    created), `updated_at` is the time of its last commit. `owner` is its live owner, if any;
    `forked_at` is the number of events it was forked with. `scope` is the tenant it belongs to and
    `family` the tree it is part of (see `core.thread_ids`); `metadata` has its title, labels and
    user.
    """

    id: str
    parent_thread_id: str | None = None
    latest_run_id: str | None = None
    open_run_id: str | None = None
    active_run_id: str | None = None
    message_count: int = 0
    event_count: int = 0
    created_at: int = 0
    updated_at: int = 0
    active_at: int = 0
    forked_from: str | None = None
    forked_at: int | None = None
    owner: str | None = None
    scope: str = ""
    family: str = ""
    metadata: ThreadMetadata = NO_METADATA


def project_run(
    run: RunRecord, open_run_id: str | None, active_run_id: str | None
) -> tuple[str | None, str | None]:
    """The thread's open and active run ids after `run` was written."""
    mine, status = run.run_id, run.status
    if status is _RUNNING:
        return mine, mine
    if status is _DONE:
        return (
            None if open_run_id == mine else open_run_id,
            None if active_run_id == mine else active_run_id,
        )
    if status is _CREATED:
        return open_run_id, active_run_id
    return mine, None


# -- changing metadata ------------------------------------------------------------------------


class ThreadPatch(Value, frozen=True, kw_only=True):
    """Changes of a thread's metadata; what is left out stays as it is.

    `None` removes a value. `labels` and `custom` are changed name by name, and a name with the
    value `None` is removed.
    """

    title: str | UnsetType | None = UNSET
    labels: dict[str, str | None] = msgspec.field(default_factory=dict)
    custom: dict[str, Json] = msgspec.field(default_factory=dict)
    resource_id: str | UnsetType | None = UNSET
    user: str | UnsetType | None = UNSET
    created_by: str | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        check_labels(self.labels)

    def apply(self, existing: ThreadMetadata) -> ThreadMetadata:
        """The changed metadata, one revision later."""
        fields = {
            name: value
            for name in ("title", "resource_id", "user", "created_by")
            if (value := getattr(self, name)) is not UNSET
        }
        return msgspec.structs.replace(
            existing,
            labels=_merge_entries(existing.labels, self.labels),
            custom=_merge_entries(existing.custom, self.custom),
            revision=existing.revision + 1,
            **fields,
        )


def fork_metadata(existing: ThreadMetadata, by: str | None) -> ThreadMetadata:
    """The metadata of a fork that `by` makes."""
    return msgspec.structs.replace(existing, created_by=by, revision=0)


def _merge_entries(existing: Mapping[str, Json], changes: Mapping[str, Json]) -> dict[str, Json]:
    return {name: v for name, v in {**existing, **changes}.items() if v is not None}


def check_labels(labels: Mapping[str, str | None]) -> None:
    """
    Raises:
        ConfigError: a label cannot be kept, or a filter could not name it.
    """
    given: Any = labels
    if not isinstance(given, Mapping):
        raise ConfigError(f"labels are texts by name, such as {{'team': 'sales'}}, not {given!r}")
    for name, value in given.items():
        for text in (name,) if value is None else (name, value):
            if not isinstance(text, str) or len(text) > LONGEST_LABEL:
                raise ConfigError(
                    f"label {str(name)[:LONGEST_LABEL]!r}: its name and its value are texts of up "
                    f"to {LONGEST_LABEL} characters"
                )
        if not name or "=" in str(name):
            raise ConfigError(f"label {name!r}: give it a name without '='")


def check_size(user: str | None, labels: Mapping[str, str]) -> None:
    """
    Raises:
        ConfigError: they are larger than the metadata of a thread may be.
    """
    sizes = {"user": len(dumps(user)), "labels": len(dumps(labels))}
    if (total := sum(sizes.values())) > MAX_METADATA:
        name = max(sizes, key=lambda name: sizes[name])
        raise ConfigError(
            f"{name}: user and labels of a run would have {total} bytes, more than {MAX_METADATA}: "
            "keep large values in your own records, and only their ids here"
        )


def label_filter(label: str) -> tuple[str, str | None]:
    """The name and the value of a filter, `name=value`; the value is `None` if any will do."""
    name, sign, value = label.partition("=")
    return name, value if sign else None


def metadata_of(run: RunRecord | None) -> ThreadMetadata:
    """The metadata of a new thread, from the request of the run that creates it. The thread of a
    delegate or task gets none: it belongs to its parent thread."""
    request = run.request if run is not None else None
    if request is None or request.parent_thread_id is not None:
        return NO_METADATA
    if not (request.user or request.labels or request.principal):
        return NO_METADATA
    return ThreadMetadata(
        user=request.user,
        labels=dict(request.labels),
        created_by=request.principal.id if request.principal is not None else None,
    )
