"""The state as JSON for clients that follow it: only values that changed are encoded again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from awaken.codec import Json, loads
from awaken.state.key import KeyRegistration
from awaken.state.snapshot import MISSING, Snapshot


class JsonView(NamedTuple):
    """The JSON of a snapshot's persistent keys, sorted by name, with the snapshot and its keys.

    The next snapshot's JSON shares objects with this one, so neither may be changed.
    """

    keys: Mapping[str, KeyRegistration]
    snapshot: Snapshot
    json: dict[str, Json]


def json_view(
    keys: Mapping[str, KeyRegistration], snapshot: Snapshot, earlier: JsonView | None
) -> JsonView:
    """The snapshot as JSON. Values unchanged since `earlier` are the same objects as there.

    Raises:
        KeyEncode: a value is not JSON-able.
    """
    if earlier is None or earlier.keys is not keys:
        earlier = JsonView(keys, Snapshot.of(0, {}), {})
    before, known = earlier.snapshot, earlier.json
    # With the same base, only values in the top layer can have changed.
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
    return JsonView(keys, snapshot, json)
