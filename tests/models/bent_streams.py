"""Whole answers, bent at random: whatever a server sends is an answer or one of our errors.

Run it for many: `python tests/models/bent_streams.py 2000`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

from mock_server import Answer
from whole_streams import WIRES, Asker, Event, asking

from awaken.codec import dumps, loads
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceExecutionError

VALUES: tuple[Any, ...] = (
    None,
    "",
    "x",
    0,
    -1,
    1.5,
    12.0,
    True,
    10**30,
    [],
    ["x"],
    [None],
    [{}],
    {},
    {"x": 1},
)


async def problem_with(asker: Asker, name: str, random: Random) -> str | None:
    """What is wrong with how one bent stream is read, or `None`."""
    events = bent(WIRES[name].events, random)
    try:
        answer = await asker.ask(Answer(pieces=WIRES[name].encode(events)))
    except InferenceExecutionError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}, after {events}"
    # An answer is kept: what could not be read again would make its thread unreadable.
    kept = loads(dumps(answer), StreamResult)
    return None if kept == answer else f"{answer} is read again as {kept}, after {events}"


def bent(events: Any, random: Random) -> list[Event]:
    """The events with one or two of them lost, doubled, moved, or changed in one place."""
    after = deepcopy(list(events))
    for _ in range(random.choice((1, 1, 2))):
        at = random.randrange(len(after))
        match random.randrange(8):
            case 0 if len(after) > 1:
                del after[at]
            case 1:
                after.insert(random.randrange(len(after) + 1), deepcopy(after[at]))
            case 2:
                after.insert(random.randrange(len(after)), after.pop(at))
            case _:
                _change(after, (at, *random.choice(list(_paths(after[at])))), random)
    return after


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places inside a value; if there is none, the value itself."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inside:
        yield (*path, key)
        yield from _paths(each, (*path, key))
    if not path and not inside:
        yield ()


def _change(value: Any, path: tuple[Any, ...], random: Random) -> None:
    *way, last = path
    for step in way:
        value = value[step]
    if isinstance(value, dict) and random.random() < 0.3:
        del value[last]
    else:
        value[last] = deepcopy(random.choice(VALUES))


async def main(count: int) -> int:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    problems: dict[str, int] = {}
    for name in WIRES:
        async with asking(name) as asker:
            for seed in range(count):
                if problem := await problem_with(asker, name, Random(seed)):
                    print(f"{name} {seed}: {problem[:300]}")
                    problems[name] = problems.get(name, 0) + 1
    print(f"bent streams: {count} in each of {len(WIRES)} APIs, read wrongly: {problems or 'none'}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)))
