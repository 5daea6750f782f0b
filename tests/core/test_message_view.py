"""Read-only windows on the growing log (D-28)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.core.message import Message
from awaken.core.transcript import MessageSequence

A, B, C, D = (Message.user(letter, id=letter) for letter in "abcd")


class Untouchable(list[Message]):
    """A list whose length may be asked for, and nothing else."""

    def __iter__(self) -> Iterator[Message]:
        self.fail()

    def __getitem__(self, index: object) -> NoReturn:
        self.fail()

    def copy(self) -> NoReturn:
        self.fail()

    def fail(self) -> NoReturn:
        raise AssertionError("the view looked into the log")


def test_making_a_view_looks_at_no_message() -> None:
    """D-28: making one, wrapping it and asking its length cost the same for any log."""
    view = MessageSequence(Untouchable([A] * 1000))

    wrapped = view.around((B,), (C,)).around((D,), ())

    assert (len(view), len(wrapped)) == (1000, 1003)
    assert (wrapped[0], wrapped[1], wrapped[-1]) == (D, B, C)


def test_a_view_does_not_show_later_messages() -> None:
    log = [A, B]
    view = MessageSequence(log)
    wrapped = view.around((), (D,))

    log.append(C)

    assert list(view) == [A, B]
    assert list(wrapped) == [A, B, D]
    assert wrapped[2] is D
    assert list(MessageSequence(log)) == [A, B, C]


def test_a_view_being_read_does_not_see_what_is_appended_meanwhile() -> None:
    log = [A, B]
    seen = []

    for message in MessageSequence(log):
        log.append(C)
        seen.append(message)

    assert seen == [A, B]


def test_a_view_shares_the_messages_of_the_log() -> None:
    log = [A, B]

    assert MessageSequence(log)[1] is log[1]


def test_a_view_can_be_compared_and_has_no_hash() -> None:
    view, plain = MessageSequence([A, B]), [A, B]

    assert view == plain
    assert plain == view
    assert view == MessageSequence([B], head=(A,))
    assert view != [B, A]
    assert view != 3
    with pytest.raises(TypeError):
        hash(view)


def test_a_view_cannot_be_written_to() -> None:
    view = MessageSequence([A])

    with pytest.raises(TypeError):
        view[0] = B  # type: ignore[index]
    assert not hasattr(view, "append")


@pytest.mark.parametrize("index", [3, -4, 100])
def test_an_index_outside_the_view_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError):
        MessageSequence([B, D], stop=1, head=(A,), tail=(C,))[index]


PARTS = st.lists(st.sampled_from([A, B, C, D]), max_size=4)
INDEX = st.none() | st.integers(-12, 12)


@given(head=PARTS, items=PARTS, hidden=PARTS, tail=PARTS, start=INDEX, stop=INDEX, step=INDEX)
@settings(max_examples=100, deadline=None)
def test_a_view_reads_like_the_list_it_stands_for(
    head: list[Message],
    items: list[Message],
    hidden: list[Message],
    tail: list[Message],
    start: int | None,
    stop: int | None,
    step: int | None,
) -> None:
    """Length, order, every index from both ends, membership, every slice."""
    view = MessageSequence(items + hidden, len(items)).around(tuple(head), tuple(tail))
    model = head + items + tail

    assert len(view) == len(model)
    assert list(view) == model
    assert list(reversed(view)) == model[::-1]
    assert [view[i] for i in range(-len(model), len(model))] == model + model
    assert (A in view) == (A in model)
    if step != 0:
        assert view[start:stop:step] == model[start:stop:step]
