"""Which messages of a log a run elsewhere has read and written (02 §2.12)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendRunOutput,
    materialize_remote_message_log,
    state_with_backend_output,
)
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message, Role
from awaken.core.run import (
    MessageSeqRange,
    PersistedState,
    RunMessageInput,
    RunMessageOutput,
    RunRecord,
)

ME = RunIdentity(thread_id="t", run_id="run-1", agent_id="far")


def user(id: str) -> Message:
    return Message.user(id, id=id)


def assistant_message(id: str, by: str | None = None, step: int | None = None) -> Message:
    message = Message.assistant(id, id=id)
    return message if by is None else message.mark_produced_by(by, step)


def hull(from_seq: int, to_seq: int) -> MessageSeqRange:
    return MessageSeqRange(from_seq=from_seq, to_seq=to_seq)


def record(
    input: MessageSeqRange | None = None, output: tuple[MessageSeqRange, ...] = (), ids: str = ""
) -> RunRecord:
    return RunRecord(
        run_id="run-1",
        thread_id="t",
        agent_id="far",
        status=RunStatus.WAITING,
        created_at=1,
        updated_at=1,
        input=RunMessageInput(thread_id="t", range=input) if input is not None else None,
        output=RunMessageOutput(thread_id="t", range=output[0], message_ids=tuple(ids.split()))
        if output
        else None,
    )


# -- the whole log ----------------------------------------------------------------------------


def test_a_first_turn_reads_all_there_is_and_writes_what_follows() -> None:
    log = [user("q0"), assistant_message("a0"), user("q1"), assistant_message("a1")]

    marked, source, output = materialize_remote_message_log(log, None, ME, 2, 3)

    assert source == RunMessageInput(thread_id="t", range=hull(1, 3))
    assert output == RunMessageOutput(thread_id="t", range=hull(4, 4), message_ids=("a1",))
    assert list(marked) == [*log[:3], assistant_message("a1", "run-1", 1)]


def test_a_run_without_steps_has_no_step_to_name() -> None:
    marked, _, _ = materialize_remote_message_log(
        [user("q"), assistant_message("a")], None, ME, 0, 1
    )
    assert marked[1] == assistant_message("a", "run-1", None)


def test_a_run_that_was_given_nothing_has_no_input() -> None:
    _, source, output = materialize_remote_message_log([assistant_message("a")], None, ME, 1, 0)
    assert source is None
    assert output == RunMessageOutput(thread_id="t", range=hull(1, 1), message_ids=("a",))


def test_a_run_that_says_nothing_keeps_the_output_it_had() -> None:
    before = record(hull(1, 1), (hull(2, 2),), "a0")
    _, source, output = materialize_remote_message_log([user("q"), user("r")], before, ME, 1, 2)
    assert (source, output) == (before.input, before.output)


def test_a_later_turn_goes_by_the_input_of_the_first() -> None:
    log = [user("q0"), assistant_message("a0", "run-1", 0), user("q1"), assistant_message("a1")]
    before = record(hull(1, 1), (hull(2, 2),), "a0")

    _, source, output = materialize_remote_message_log(log, before, ME, 2, 3)

    assert source == before.input
    assert output == RunMessageOutput(thread_id="t", range=hull(2, 4), message_ids=("a0", "a1"))


def test_what_others_have_said_is_never_claimed() -> None:
    """design §8"""
    log = [
        user("q0"),
        assistant_message("a0", "run-1"),
        user("q1"),
        assistant_message("b", "run-2"),
        user("q2"),
        assistant_message("a1"),
    ]

    marked, _, output = materialize_remote_message_log(log, record(hull(1, 1)), ME, 1, 5)

    assert output is not None
    assert output.message_ids == ("a0", "a1")
    assert marked[3].produced_by_run_id() == "run-2"


def test_what_is_marked_stays_as_it_is() -> None:
    """02/C7"""
    marked, _, _ = materialize_remote_message_log(
        [assistant_message("a", "run-1", 7)], None, ME, 2, 0
    )
    assert list(marked) == [assistant_message("a", "run-1", 7)]


def test_results_of_tools_are_output_too() -> None:
    log = [user("q"), assistant_message("a"), Message.tool("c1", "done", id="r")]
    _, _, output = materialize_remote_message_log(log, None, ME, 1, 1)
    assert output == RunMessageOutput(thread_id="t", range=hull(2, 3), message_ids=("a", "r"))


def test_a_message_without_an_id_widens_the_range_alone() -> None:
    nameless = msgspec.structs.replace(assistant_message("a"), id=None)
    _, _, output = materialize_remote_message_log([user("q"), nameless], None, ME, 1, 1)
    assert output == RunMessageOutput(thread_id="t", range=hull(2, 2))


# -- the end of it ----------------------------------------------------------------------------


def test_a_window_is_counted_from_where_it_begins() -> None:
    before = record(hull(1, 1), (hull(2, 2),), "a0")

    marked, source, output = materialize_remote_message_log(
        [assistant_message("a1")], before, ME, 1, 3, base_seq=3
    )

    assert source == before.input
    assert output == RunMessageOutput(thread_id="t", range=hull(2, 4), message_ids=("a0", "a1"))
    assert list(marked) == [assistant_message("a1", "run-1", 0)]


MESSAGES = st.sampled_from(["user", "mine", "other", "new"])


@given(st.lists(MESSAGES, max_size=8), st.integers(0, 8))
def test_a_window_comes_to_the_same_as_the_whole_log(kinds: list[str], cut: int) -> None:
    """What lies before the window was claimed when it was new."""
    log = [_message(kind, number) for number, kind in enumerate(["user", *kinds])]
    cut = min(cut + 1, len(log))
    first, source, written = materialize_remote_message_log(log[:cut], None, ME, 1, 1)
    before = msgspec.structs.replace(record(), input=source, output=written)

    rest, _, output = materialize_remote_message_log(log[cut:], before, ME, 1, 1, base_seq=cut)
    whole, _, expected = materialize_remote_message_log([*log], None, ME, 1, 1)

    assert output == expected
    assert [*first, *rest] == list(whole)


def _message(kind: str, number: int) -> Message:
    id = f"m{number}"
    if kind == "user":
        return user(id)
    return assistant_message(id, {"mine": "run-1", "other": "run-2", "new": None}[kind], 0)


@given(st.lists(MESSAGES, max_size=8), st.integers(0, 3), st.integers(0, 9))
def test_everything_claimed_is_an_answer_behind_the_input(
    kinds: list[str], steps: int, count: int
) -> None:
    log = [_message(kind, number) for number, kind in enumerate(kinds)]

    marked, _, output = materialize_remote_message_log(log, None, ME, steps, count)

    claimed = set(output.message_ids) if output is not None else set()
    for seq, (before, after) in enumerate(zip(log, marked, strict=True), start=1):
        mine = seq > count and before.role is Role.ASSISTANT
        mine = mine and before.produced_by_run_id() in (None, "run-1")
        assert (after.id in claimed) == mine
        if not mine:
            assert after == before


# -- state ------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [None, PersistedState(extensions={"a": 1})])
def test_no_output_leaves_state_as_it_is(state: PersistedState | None) -> None:
    """02 §2.10 step 2"""
    assert state_with_backend_output(state, BackendRunOutput()) is state


def test_output_is_put_beside_what_is_known() -> None:
    """02 §2.10 step 2"""
    output = BackendRunOutput(text="", raw={"n": 1})
    wire = {"text": "", "raw": {"n": 1}}
    assert state_with_backend_output(None, output) == PersistedState(
        extensions={BACKEND_OUTPUT_STATE_KEY: wire}
    )
    state = PersistedState(revision=3, extensions={"a": 1})
    assert state_with_backend_output(state, output) == PersistedState(
        revision=3, extensions={"a": 1, BACKEND_OUTPUT_STATE_KEY: wire}
    )
    assert state.extensions == {"a": 1}
