"""The state of a live run, in memory: commits by revision, export and restore as JSON.

Nothing here writes to disk. The loop takes the values that changed (`take_unsaved`) and stores them
with the run's next commit to its thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from awaken.codec import Json, loads
from awaken.core.run import PersistedState
from awaken.core.state.command import CommitEvent, MutationBatch
from awaken.core.state.json_view import JsonView, PublicState, changes_between, json_view
from awaken.core.state.key import KeyRegistration, Merge, Scope, StateKey
from awaken.core.state.snapshot import MISSING, Snapshot
from awaken.errors import (
    KeyAlreadyRegistered,
    KeyEncode,
    PluginAlreadyInstalled,
    PluginNotInstalled,
    ReducerFailed,
    RevisionConflict,
    UnknownKey,
)

V = TypeVar("V")
U = TypeVar("U")

CommitHook = Callable[[CommitEvent], None]
log = logging.getLogger("awaken.state")
_RUN = Scope.RUN  # bound once: read for every key of every commit
_NONE: dict[str, Any] = {}
_NO_NAMES: frozenset[str] = frozenset()
_EMPTY = Snapshot.of(0, {})


def _apply_update(key: StateKey[Any, Any], old: Any, update: Any) -> Any:
    try:
        new = key.apply(key.initial() if old is MISSING else old, update)
    except BaseException as error:
        raise ReducerFailed(key.name, error) from error
    if key.holds is not None and not isinstance(new, key.holds):
        expected = " or ".join(kind.__name__ for kind in key.holds)
        hint = ": apply must return the new value" if new is None else ""
        raise ReducerFailed(
            key.name, TypeError(f"it holds {expected}, not {type(new).__name__}{hint}")
        )
    return new


class UnknownKeyPolicy(StrEnum):
    """What to do with a stored value whose key is not registered."""

    ERROR = "error"
    SKIP = "skip"


class StateStore:
    """The current state of one run. A commit makes a new snapshot; earlier snapshots do not change.

    Any operating-system thread may commit. A batch with a base revision is refused only if an
    exclusive key it touches has changed since that revision; writers of different keys never
    conflict.
    """

    __slots__ = (
        "_changed_at",
        "_fresh",
        "_hooks",
        "_json_view",
        "_keys",
        "_latest",
        "_lock",
        "_owners",
        "_parked",
        "_revision",
        "_snapshot",
        "_stored",
        "_unsaved",
    )

    def __init__(self, keys: Mapping[str, KeyRegistration] | None = None) -> None:
        self._lock = threading.Lock()
        # Runs of one agent share one table of keys; it is copied when a run brings more.
        self._keys: Mapping[str, KeyRegistration] = keys if keys is not None else {}
        # What most runs never change is shared: an empty set of their own would take 216 bytes.
        self._owners: Mapping[str, list[str]] = _NONE
        # Stored values whose keys are not registered yet: a later agent of this run may do so.
        self._parked: Mapping[str, Any] = _NONE
        self._hooks: tuple[CommitHook, ...] = ()
        self._changed_at: dict[str, int] = {}
        # The values in one dictionary, which is never handed out: a step reads a dozen keys, most
        # of them absent. Snapshots are made when they are asked for: `_snapshot` is the last one,
        # and `_fresh` are the changes since then.
        self._latest: dict[str, Any] = {}
        self._fresh: dict[str, Any] = {}
        self._revision = 0
        self._snapshot = _EMPTY
        self._unsaved: set[str] = set()
        # Keys with a durable part that an earlier commit may have stored: they are written even
        # when that part is empty now, so that the stored one does not stay.
        self._stored = _NO_NAMES
        self._json_view: JsonView | None = None

    # -- reading ------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        return self._revision

    def snapshot(self) -> Snapshot:
        """The state at the current revision: the same object until the next commit."""
        if self._snapshot.revision == self._revision:
            return self._snapshot
        with self._lock:
            return self._take_snapshot()

    def _take_snapshot(self) -> Snapshot:
        """The snapshot of the current revision; the caller holds the lock."""
        if self._snapshot.revision != self._revision:
            self._snapshot = self._snapshot.after(self._fresh, self._revision)
            self._fresh.clear()
        return self._snapshot

    def _write(self, changes: dict[str, Any]) -> int:
        """Make the next revision with these values changed; the caller holds the lock."""
        revision = self._revision = self._revision + 1
        for name in changes:
            self._changed_at[name] = revision
        self._latest.update(changes)
        self._fresh.update(changes)
        return revision

    def read(self, key: StateKey[V, Any]) -> V | None:
        return self._latest.get(key.name)

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether one of the keys of these names was ever written."""
        return not names.isdisjoint(self._latest)

    def merge_strategy(self, name: str) -> Merge:
        """The merge rule of a key; an unregistered key counts as exclusive."""
        registration = self._keys.get(name)
        return registration.key.merge if registration else Merge.EXCLUSIVE

    def is_registered(self, name: str) -> bool:
        return name in self._keys

    # -- writing ------------------------------------------------------------------------------

    def update(self, key: StateKey[Any, U], update: U) -> int:
        """Commit one update and return the revision: `commit` for a batch of one, but faster.

        Raises:
            UnknownKey: the key is not registered.
            ReducerFailed: the key's `apply` raised.
        """
        if self._hooks:
            return self.commit(MutationBatch().update(key, update))
        name = key.name
        with self._lock:
            if name not in self._keys:
                raise UnknownKey(name)
            old = self._latest.get(name, MISSING)
            new = _apply_update(key, old, update)
            revision = self._revision = self._revision + 1
            if new is not old:
                self._latest[name] = self._fresh[name] = new
                self._changed_at[name] = revision
                self._unsaved.add(name)
                return revision
        if isinstance(new, msgspec.Struct):
            log.warning("an update of %s was refused by its key", name)
        return revision

    def commit(self, batch: MutationBatch) -> int:
        """Apply all of `batch` or none of it; return the revision.

        Raises:
            RevisionConflict: an exclusive key changed since `batch.base_revision`.
            UnknownKey: a key is not registered.
            ReducerFailed: a key's `apply` raised.
        """
        if not batch.ops:
            return self._revision
        hooks = self._hooks
        with self._lock:
            previous = self._revision
            changes, skipped = self._apply(batch)
            revision = self._write(changes)
            self._unsaved.update(changes)
            snapshot = self._take_snapshot() if hooks else self._snapshot
        if skipped:
            log.warning("updates of %s were refused by their keys", ", ".join(sorted(skipped)))
        if hooks:
            event = CommitEvent(
                previous_revision=previous,
                new_revision=revision,
                op_count=len(batch.ops),
                snapshot=snapshot,
                skipped=tuple(sorted(set(skipped))),
            )
            for hook in hooks:
                hook(event)
        return revision

    def check(self, batch: MutationBatch) -> None:
        """Raise the error that committing and encoding the batch would raise; change nothing."""
        with self._lock:
            changes, _ = self._apply(batch)
            for name, value in changes.items():
                registration = self._keys[name]
                if registration.persistent:
                    registration.key.dump_to_store(value)

    def _apply(self, batch: MutationBatch) -> tuple[dict[str, Any], list[str]]:
        """The changed values by name, and the names of keys whose reducers refused the update."""
        base, keys, latest = batch.base_revision, self._keys, self._latest
        changes: dict[str, Any] = {}
        skipped: list[str] = []
        for key, update in batch.ops:
            name = key.name
            if name not in keys:
                raise UnknownKey(name)
            if base is not None and key.merge is Merge.EXCLUSIVE:
                changed_at = self._changed_at.get(name, 0)
                if changed_at > base:
                    raise RevisionConflict(expected=base, actual=changed_at, key=name)
            old = changes[name] if name in changes else latest.get(name, MISSING)
            new = _apply_update(key, old, update)
            if new is not old:
                changes[name] = new
            elif isinstance(new, msgspec.Struct):
                # A reducer that returns the old record refuses the update; an int that is set to
                # the same number is no refusal.
                skipped.append(name)
        return changes, skipped

    def add_commit_hook(self, hook: CommitHook) -> None:
        self._hooks = (*self._hooks, hook)

    # -- keys ---------------------------------------------------------------------------------

    def install(self, owner: str, keys: Iterable[KeyRegistration]) -> None:
        """Register all keys of the plugin `owner`, or none of them.

        Raises:
            PluginAlreadyInstalled: `owner` is installed already.
            KeyAlreadyRegistered: one of the names is taken.
        """
        with self._lock:
            if owner in self._owners:
                raise PluginAlreadyInstalled(owner)
            added: dict[str, KeyRegistration] = {}
            for registration in keys:
                name = registration.key.name
                if name in self._keys or name in added:
                    raise KeyAlreadyRegistered(name)
                added[name] = registration
            self._keys = {**self._keys, **added}
            self._owners = {**self._owners, owner: list(added)}

    def uninstall(self, owner: str) -> None:
        """Remove a plugin's keys and, in one commit, the values that are not to be retained.

        Raises:
            PluginNotInstalled: `owner` is not installed.
        """
        with self._lock:
            if owner not in self._owners:
                raise PluginNotInstalled(owner)
            names = self._owners[owner]
            self._owners = {name: keys for name, keys in self._owners.items() if name != owner}
            gone = {
                name
                for name in names
                if name in self._latest and not self._keys[name].retain_on_uninstall
            }
            previous = self._revision
            if gone:
                self._drop(gone)
            self._keys = {name: key for name, key in self._keys.items() if name not in names}
            event = CommitEvent(
                previous_revision=previous,
                new_revision=self._revision,
                op_count=len(gone),
                snapshot=self._take_snapshot(),
            )
        if gone:
            for hook in self._hooks:
                hook(event)

    def shares(self, keys: Mapping[str, KeyRegistration]) -> bool:
        """Whether `keys` is the very table of keys this store uses."""
        return keys is self._keys

    def register_keys(self, keys: Iterable[KeyRegistration]) -> None:
        """Register the keys of an agent's plugins; keys that are registered already stay.

        If the state was restored before its key was registered, the stored value appears now.

        Raises:
            KeyAlreadyRegistered: a *different* key has that name.
            KeyDecode: a stored value does not fit its key.
        """
        with self._lock:
            fresh: dict[str, KeyRegistration] = {}
            for registration in keys:
                name = registration.key.name
                existing = self._keys.get(name) or fresh.get(name)
                if existing is None:
                    fresh[name] = registration
                elif existing.key is not registration.key:
                    raise KeyAlreadyRegistered(name)
            returning = {
                name: self._load_value(registration.key, self._parked[name])
                for name, registration in fresh.items()
                if name in self._parked
            }
            if fresh:
                self._keys = {**self._keys, **fresh}
        self._merge(returning)

    def _drop(self, names: set[str]) -> None:
        revision = self._revision = self._revision + 1
        for name in names:
            self._changed_at[name] = revision
            self._latest.pop(name, None)
        self._unsaved -= names
        self._snapshot = Snapshot.of(revision, dict(self._latest))
        self._fresh.clear()

    # -- persistence --------------------------------------------------------------------------

    def export_persisted(self) -> PersistedState:
        """The values of all persistent keys that were ever written, as JSON.

        Raises:
            KeyEncode: a value cannot be stored.
        """
        return self._export(None)

    def export_thread_scoped(self) -> PersistedState:
        return self._export(Scope.THREAD)

    def export_run_scoped(self) -> PersistedState:
        return self._export(Scope.RUN)

    def _export(self, scope: Scope | None) -> PersistedState:
        with self._lock:
            snapshot, keys = self._take_snapshot(), sorted(self._keys.items())
        return PersistedState(
            revision=snapshot.revision,
            extensions={
                name: loads(registration.key.dump(value))
                for name, registration in keys
                if registration.persistent
                and (scope is None or registration.scope is scope)
                and (value := snapshot.find(name, MISSING)) is not MISSING
            },
        )

    def public_json(self) -> PublicState:
        """The public keys as JSON, and what changed since the last call.

        Only values that changed since the last call are encoded again. The others are the same
        objects as last time, so the caller must not change any of them.

        Raises:
            KeyEncode: a value cannot be stored.
        """
        with self._lock:
            keys, snapshot = self._keys, self._take_snapshot()
        before, view = self._json_view, json_view(keys, snapshot, self._json_view)
        self._json_view = view
        return PublicState(snapshot.revision, view.json, changes_between(before, view))

    def take_unsaved(self) -> tuple[dict[str, msgspec.Raw], dict[str, msgspec.Raw]]:
        """The persistent keys changed since the last call, as (run-scoped, thread-scoped) JSON.

        A key with a `durable` function gives only the part that function returns. It is left out
        if that part is `None` and no earlier commit stored one.

        Raises:
            KeyEncode: a value cannot be stored. Its change is dropped; the others stay for the
                next call.
        """
        run: dict[str, msgspec.Raw] = {}
        thread: dict[str, msgspec.Raw] = {}
        if not self._unsaved:
            return run, thread
        # Other threads may commit: with the lock, their change is taken here or stays unsaved.
        with self._lock:
            for name in sorted(self._unsaved) if len(self._unsaved) > 1 else tuple(self._unsaved):
                registration = self._keys.get(name)
                value = self._latest.get(name, MISSING)
                if registration is None or not registration.persistent or value is MISSING:
                    continue
                key, target = registration.key, run if registration.scope is _RUN else thread
                try:
                    if key.durable is not None:
                        value = key.durable_part(value)
                        if name not in self._stored:
                            if value is None:
                                continue
                            self._stored |= {name}
                        value = key.initial() if value is None else value
                    target[name] = key.dump_to_store(value)
                except KeyEncode:
                    self._unsaved.discard(name)
                    raise
            self._unsaved.clear()
        return run, thread

    def restore_persisted(self, state: PersistedState, policy: UnknownKeyPolicy) -> None:
        """Replace the whole state by `state`. The revision never goes back.

        Raises:
            UnknownKey: a key is not registered and `policy` is `ERROR`.
            KeyDecode: a value does not fit its key; nothing was changed.
        """
        loaded = self._load(state, policy, None)
        with self._lock:
            revision = state.revision
            if loaded or self._revision:
                revision = max(revision, self._revision + 1)
            self._changed_at = dict.fromkeys({*self._changed_at, *loaded}, revision)
            self._unsaved.clear()
            self._latest, self._revision = dict(loaded), revision
            self._snapshot = Snapshot.of(revision, loaded)
            self._fresh.clear()

    def restore_thread_scoped(self, state: PersistedState, policy: UnknownKeyPolicy) -> None:
        """Set all thread-scoped keys from `state`, or none of them if one cannot be decoded."""
        self._merge(self._load(state, policy, Scope.THREAD))

    def restore_run_scoped(self, state: PersistedState, policy: UnknownKeyPolicy) -> None:
        """Set all run-scoped keys from `state`, or none of them if one cannot be decoded."""
        self._merge(self._load(state, policy, Scope.RUN))

    def apply_seed(self, state: PersistedState, policy: UnknownKeyPolicy) -> None:
        """Set all keys from `state`, or none of them if one cannot be decoded.

        The values count as unsaved: they come from another thread's state.
        """
        loaded = self._load(state, policy, None)
        self._merge(loaded)
        with self._lock:
            self._unsaved |= loaded.keys()

    def _load(
        self, state: PersistedState, policy: UnknownKeyPolicy, scope: Scope | None
    ) -> dict[str, Any]:
        loaded: dict[str, Any] = {}
        parked: dict[str, Json] = {}
        for name, json in state.extensions.items():
            registration = self._keys.get(name)
            if registration is None:
                if policy is UnknownKeyPolicy.ERROR:
                    raise UnknownKey(name)
                parked[name] = json
            elif scope is None or registration.scope is scope:
                loaded[name] = self._load_value(registration.key, json)
        if parked:
            self._parked = {**self._parked, **parked}
        return loaded

    def _load_value(self, key: StateKey[V, Any], json: Json) -> V:
        value = key.load(json)
        if key.durable is not None and value != key.initial():
            self._stored |= {key.name}
        return value

    def _merge(self, loaded: dict[str, Any]) -> None:
        if not loaded:
            return
        with self._lock:
            self._write(loaded)

    def clear_run_scoped(self) -> None:
        """Remove the values that belong to the run that ended."""
        with self._lock:
            names = {
                name
                for name in self._latest
                if name in self._keys and self._keys[name].scope is Scope.RUN
            }
            if names:
                self._drop(names)
