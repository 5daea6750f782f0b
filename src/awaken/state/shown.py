"""The state as JSON, for readers who follow it: only what changed is made anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from awaken.codec import Json, loads
from awaken.state.key import KeyRegistration
from awaken.state.snapshot import MISSING, Snapshot


class Shown(NamedTuple):
    """The JSON of a snapshot's persistent keys, sorted by name, and what it was made of.

    The JSON of one snapshot is in part that of the next, so it must not be changed.
    """

    keys: Mapping[str, KeyRegistration]
    snapshot: Snapshot
    json: dict[str, Json]


def show(keys: Mapping[str, KeyRegistration], snapshot: Snapshot, earlier: Shown | None) -> Shown:
    """The JSON of a snapshot; of values that an `earlier` one had, the same objects.

    Raises:
        KeyEncode: a value is not JSON-able.
    """
    if earlier is None or earlier.keys is not keys:
        earlier = Shown(keys, Snapshot.of(0, {}), {})
    before, known = earlier.snapshot, earlier.json
    # Over the same base, only what lies on top of it can have changed.
    same_base = before.base is snapshot.base
    json = {**known} if same_base else {}
    values = snapshot.top if same_base else {**snapshot.base, **snapshot.top}
    for name, value in values.items():
        if name in known and before.find(name, MISSING) is value:
            json[name] = known[name]
        elif name in keys and keys[name].persistent:
            json[name] = loads(keys[name].key.dump(value))
    if not same_base or len(json) > len(known):
        json = dict(sorted(json.items()))
    return Shown(keys, snapshot, json)
