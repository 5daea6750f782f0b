"""A suspended call is the same question in a store and in the record of the run that waits."""

from __future__ import annotations

from awaken.codec import dumps, loads
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import AskedCall, Asker, Ticket, ToolCallResumeMode
from awaken.testing.conformance.helpers import ticket

ASKED = ticket("m:0", arguments={"path": "/"}, reason="careful", expires_at=9)


def test_the_record_of_a_run_has_the_question_of_its_ticket() -> None:
    question = RunWaitingTicket.of(ASKED)

    for name in AskedCall.__struct_fields__:
        assert getattr(question, name) == getattr(ASKED, name), name
    assert (question.tool_call_id, question.updated_at) == (ASKED.call_id, ASKED.asked_at)


def test_both_can_be_answered_by_their_key() -> None:
    question = RunWaitingTicket.of(ASKED)

    assert ASKED.answered_by == question.answered_by == "m:0"
    assert hash(ASKED) == hash(question)
    assert len({ASKED: True} | {question: False}) == 2


def test_a_question_without_a_key_is_answered_by_its_id() -> None:
    earlier = b'{"ticket_id":"q","tool_call_id":"c","tool_name":"ship","updated_at":7}'

    assert loads(earlier, RunWaitingTicket).answered_by == "q"


def test_the_run_that_asks_says_what_becomes_of_the_answer() -> None:
    mode = ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
    asker = Asker(run_id="r2", thread_id="t2", agent_id="a2", tool_name="ship", resume_mode=mode)

    assert ASKED.answer_mode is ToolCallResumeMode.REPLAY_TOOL_CALL
    assert ticket(asker=asker).answer_mode is mode


def test_tickets_round_trip() -> None:
    assert loads(dumps(ASKED), Ticket) == ASKED
    question = RunWaitingTicket.of(ASKED)
    assert loads(dumps(question), RunWaitingTicket) == question
