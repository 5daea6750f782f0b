"""The spans of a log that are out of view, against a plain list of flags."""

from __future__ import annotations

from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from awaken import Message
from awaken.core.message import CompactionInterval, MessageMetadata
from awaken.core.rewind import (
    Hidden,
    before_hidden,
    begin_of_tail,
    count_visible,
    end_of_page,
    find_hidden_spans,
    is_hidden,
    positions,
    positions_back,
    stretches,
)
from awaken.core.transcript import effective_view

rewinds = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 40)), max_size=6)


def talk(turns: list[tuple[int, int]]) -> tuple[list[bool], Hidden]:
    """A log that grows and is rewound in turn: which positions are in view, and the spans."""
    seen: list[bool] = []
    made: list[tuple[int, int]] = []
    for words, back in turns:
        seen += [True] * words
        to = back % (len(seen) + 1)
        if to < len(seen):
            made.append((to, len(seen)))
            seen[to:] = [False] * (len(seen) - to)
    return [*seen, True, True], find_hidden_spans(made)


@given(rewinds, st.integers(0, 45), st.integers(0, 45))
def test_spans_say_what_is_in_view(turns: list[tuple[int, int]], after: int, number: int) -> None:
    seen, hidden = talk(turns)
    length = len(seen)
    after = min(after, length)
    shown = [seq for seq in range(1, length + 1) if seen[seq - 1]]
    behind = [seq for seq in shown if seq > after]

    assert [seq for seq in range(1, length + 1) if not is_hidden(hidden, seq)] == shown
    parts = stretches(hidden, after, length)
    assert [seq for low, high in parts for seq in range(low + 1, high + 1)] == behind
    assert count_visible(hidden, after, length) == len(behind)
    assert list(islice(positions(hidden, after), len(behind))) == behind
    assert list(positions_back(hidden, length)) == shown[::-1]
    begin = begin_of_tail(hidden, length, number)
    assert [seq for seq in shown if seq > begin] == shown[max(0, len(shown) - number) :]
    end = end_of_page(hidden, after, length, number)
    assert [seq for seq in behind if seq <= end] == behind[:number]
    earlier = before_hidden(hidden, after)
    assert [seq for seq in shown if seq <= earlier] == [seq for seq in shown if seq <= after]
    for before, behind_it in pairwise(hidden):
        assert before.until < behind_it.after, "spans neither overlap nor touch"


def user_message(text: str) -> Message:
    return Message.user(text, id=text)


def summary(text: str, first: int, last: int) -> Message:
    covered = CompactionInterval(from_seq=first, to_seq=last)
    return replace(Message.system(text, id=text), metadata=MessageMetadata(compaction=covered))


def test_a_summary_that_begins_with_a_rewound_message_is_shown() -> None:
    """Positions: 1 a, (2 b, 3 c rewound), 4 d, 5 e, 6 the summary of 2 to 4."""
    log = [user_message("a"), user_message("d"), user_message("e"), summary("s", 2, 4)]
    view = effective_view(log, hidden=find_hidden_spans([(1, 3)]))
    assert [message.id for message in view] == ["a", "s", "e"]


def test_without_its_summary_the_messages_are_shown_again() -> None:
    """Positions: 1 a, 2 b, (3 the summary of 1 to 2, 4 c rewound), 5 d."""
    view = effective_view(
        [user_message("a"), user_message("b"), user_message("d")],
        hidden=find_hidden_spans([(2, 4)]),
    )
    assert [message.id for message in view] == ["a", "b", "d"]
