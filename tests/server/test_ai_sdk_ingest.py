"""From a chat request of the AI SDK to what it asks for (06 §3.7)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from awaken.core.message import Base64Source, Document, Image, Message, Role, Text, UrlSource
from awaken.core.store.commands import SubmitMode
from awaken.core.suspension import (
    ResumeAction,
    Ticket,
    TicketStatus,
    ToolCallResume,
    ToolCallResumeMode,
)
from awaken.server.protocols.ai_sdk.ingest import ingest
from awaken.server.protocols.ai_sdk.request import major_version, read_request
from awaken.server.protocols.base import BadRequest, Intake, KnownThread

HELLO = {"type": "text", "text": "hello"}


def user(id: str, *parts: Any) -> Any:
    return {"id": id, "role": "user", "parts": list(parts or (HELLO,))}


def agent(id: str, *parts: Any) -> Any:
    return {"id": id, "role": "assistant", "parts": list(parts)}


def call(state: str, id: str = "c", **more: Any) -> Any:
    return {"type": "tool-pay", "toolCallId": id, "state": state, **more}


def asked(messages: Sequence[Any], known: KnownThread | None = None, **body: Any) -> Intake:
    sent = {"id": "t", "messages": list(messages), **body}
    return ingest(read_request(json.dumps(sent).encode()), known or KnownThread(), thread_id="t")


def ticket(key: str = "k", *, call_id: str = "c", **more: Any) -> Ticket:
    return Ticket(
        key=key,
        ticket_id="s",
        tool_name="pay",
        thread_id="t",
        run_id="r1",
        call_id=call_id,
        digest="d",
        asked_at=0,
        **more,
    )


FRONTEND = ticket(resume_mode=ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT)
LOG = (Message.user("hello", id="u1"), Message.assistant("hi", id="m1").mark_produced_by("r1"))


# -- messages -----------------------------------------------------------------------------------


def test_messages_behind_the_last_one_that_the_log_knows_are_new() -> None:
    """A page sends its whole history; an agent's message goes by the id of its run."""
    known = KnownThread(messages=LOG)
    intake = asked([user("u1"), agent("r1", HELLO), user("u2"), user("u3")], known)
    assert [message.id for message in intake.messages] == ["u2", "u3"]
    assert (intake.key, intake.mode) == ("message:u3", SubmitMode.QUEUE)
    assert intake.thread_id == "t"


def test_only_what_users_say_is_taken() -> None:
    system = {"id": "s", "role": "system", "parts": [HELLO]}
    intake = asked([system, agent("a", HELLO), user("u1")])
    assert [message.role for message in intake.messages] == [Role.USER]


def test_a_message_that_was_sent_before_is_the_same_request_again() -> None:
    """06/SV-24: the store knows it by its key, and gives the first answer once more."""
    first = asked([user("u1")])
    again = asked([user("u1")], KnownThread(messages=LOG[:1]))
    assert first == again


def test_parts_of_a_message_become_its_content() -> None:
    picture = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="}
    page = {"type": "file", "mediaType": "application/pdf", "url": "https://x/y.pdf"}
    note = {"type": "file", "mediaType": "text/plain", "url": "data:text/plain,hi", "filename": "n"}
    (message,) = asked([user("u1", HELLO, picture, page, note, {"type": "data-x"})]).messages
    assert message.content == (
        Text(text="hello"),
        Image(source=Base64Source(media_type="image/png", data="aGk=")),
        Document(source=UrlSource(url="https://x/y.pdf")),
        Document(source=Base64Source(media_type="text/plain", data="aGk="), title="n"),
    )


def test_state_and_context_are_shown_to_the_model_alone() -> None:
    context, message = asked([user("u1")], state={"page": 3}, context=[]).messages
    assert not context.is_visible_user()
    assert context.text() == '<frontend-context>{"state":{"page":3}}</frontend-context>'
    assert message.id == "u1"


def test_the_pages_own_tools_come_with_the_request() -> None:
    (tool,) = asked([user("u1")], tools=[{"name": "pick", "description": "Pick."}]).frontend_tools
    assert (tool.id, tool.description, tool.parameters) == ("pick", "Pick.", {"type": "object"})


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "nothing to do"),
        ([agent("r9", HELLO)], "nothing to do"),
        ([user("u1", {"type": "text", "text": ""})], "message is empty"),
        ([user("u1", {"type": "file"})], "no url"),
        ([user("u1", {"type": "file", "mediaType": "image/png", "url": "file:///x"})], "neither"),
        (
            [user("u1", {"type": "file", "mediaType": "a/b", "url": "data:a/b;base64,?"})],
            "not valid base64",
        ),
    ],
)
def test_a_request_that_asks_for_nothing_is_refused_in_words(messages: Any, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        asked(messages)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"id": 1, "messages": []}', b"\xff", b"[" * 9999]
)
def test_a_body_that_is_no_chat_request_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="not a chat request"):
        read_request(body)


@pytest.mark.parametrize(
    ("given", "major"),
    [(None, 6), ("7", 7), (7, 7), ("7.0.169", 7), ("6.0.1", 6), ("x", 6), ("٧", 6), ("9" * 99, 6)],
)
def test_the_version_is_the_clients_word_or_6(given: Any, major: int) -> None:
    assert major_version(given) == major


# -- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "opened", "action", "result"),
    [
        (
            call("approval-responded", approval={"id": "k", "approved": True}),
            ticket(),
            ResumeAction.RESUME,
            None,
        ),
        (
            call("approval-responded", approval={"id": "k", "approved": False, "reason": "no"}),
            ticket(),
            ResumeAction.CANCEL,
            None,
        ),
        (
            call("output-denied", approval={"id": "k", "approved": False}),
            ticket(),
            ResumeAction.CANCEL,
            None,
        ),
        (call("output-available", output={"a": 1}), FRONTEND, ResumeAction.RESUME, {"a": 1}),
        (
            call("output-error", errorText="no screen"),
            FRONTEND,
            ResumeAction.RESUME,
            {"error": "no screen"},
        ),
        (call("output-denied"), FRONTEND, ResumeAction.CANCEL, None),
    ],
)
def test_parts_answer_the_open_questions_they_name(
    part: Any, opened: Ticket, action: ResumeAction, result: Any
) -> None:
    known = KnownThread(messages=LOG, tickets=(opened,))
    intake = asked([user("u1"), agent("r1", part)], known, messageId="r1")
    ((target, answer),) = intake.decisions
    assert (target, answer.action, answer.result) == ("k", action, result)
    assert intake.messages == ()
    assert intake.key is not None


@pytest.mark.parametrize(
    ("message", "opened"),
    [
        # Another run's call had the same id.
        (agent("r0", call("output-available", output=1)), FRONTEND),
        # An earlier question of the same call was answered.
        (
            agent("r1", call("approval-responded", approval={"id": "k0", "approved": True})),
            ticket(),
        ),
        # An output is no approval.
        (agent("r1", call("output-available", output=1)), ticket()),
        (agent("r1", call("output-available", output=1, preliminary=True)), FRONTEND),
        # The call comes twice in the message, and the later one has no answer.
        (agent("r1", call("output-available", output=1), call("input-available")), FRONTEND),
        (agent("r1", call("approval-requested", approval={"id": "k"})), ticket()),
    ],
)
def test_other_parts_answer_nothing(message: Any, opened: Ticket) -> None:
    known = KnownThread(messages=LOG, tickets=(opened,))
    intake = asked([user("u1"), message, user("u2")], known)
    assert intake.decisions == ()


@pytest.mark.parametrize(
    ("opened", "mode"),
    [(ticket(), ToolCallResumeMode.PASS_DECISION_TO_TOOL), (FRONTEND, None)],
)
def test_an_approver_gives_other_arguments_or_a_value_beside_a_no(
    opened: Ticket, mode: Any
) -> None:
    """The page repeats its no with each request, and the value with none of them: if the request
    with the value is lost or refused, nothing is approved."""
    part = call("approval-responded", approval={"id": "k", "approved": False, "reason": "less"})
    known = KnownThread(messages=LOG, tickets=(opened,))
    ((_, answer),) = asked([agent("r1", part)], known, answers={"k": {"amount": 1}}).decisions
    assert (answer.action, answer.result) == (ResumeAction.RESUME, {"amount": 1})
    assert (answer.mode, answer.reason) == (mode, "less")
    later = asked([agent("r1", part), user("u2")], known, answers={"other": 1})
    assert [(one.action, one.reason) for _, one in later.decisions] == [
        (ResumeAction.CANCEL, "less")
    ]


@pytest.mark.parametrize("opened", [ticket(), FRONTEND])
def test_a_value_beside_a_yes_is_refused(opened: Ticket) -> None:
    part = call("approval-responded", approval={"id": "k", "approved": True})
    known = KnownThread(messages=LOG, tickets=(opened,))
    with pytest.raises(BadRequest, match="approved: false"):
        asked([agent("r1", part)], known, answers={"k": {"amount": 1}})


def closed(opened: Ticket, at_ms: int | None) -> Ticket:
    """The ticket, answered at a time; without one the run gave it up."""
    if at_ms is None:
        return msgspec.structs.replace(opened, status=TicketStatus.CLOSED)
    given = msgspec.structs.replace(ToolCallResume.approve(), updated_at=at_ms)
    return msgspec.structs.replace(opened, status=TicketStatus.ANSWERED, decision=given)


@pytest.mark.parametrize(
    ("part", "opened"),
    [
        (call("approval-responded", approval={"id": "k", "approved": True}), ticket()),
        (call("output-available", output="red"), FRONTEND),
        (call("output-error", errorText="no screen"), FRONTEND),
    ],
)
def test_an_answer_to_a_closed_question_is_left_to_the_store(part: Any, opened: Ticket) -> None:
    """06/SV-25: it was this very request before, or it comes too late."""
    first = asked([agent("r1", part)], KnownThread(messages=LOG, tickets=(opened,)))
    for at_ms in (5, None):
        again = asked(
            [agent("r1", part)], KnownThread(messages=LOG, closed=(closed(opened, at_ms),))
        )
        assert first == again


def test_a_request_that_comes_twice_has_only_its_own_answers() -> None:
    """The page keeps what it has answered before; the calls of its own tools look alike."""
    other = ticket("k2", call_id="c2", resume_mode=FRONTEND.resume_mode)
    parts = [call("output-available", output="red")]
    parts.append(call("output-available", id="c2", output="blue"))
    first = asked([agent("r1", *parts)], KnownThread(messages=LOG, tickets=(other,)))
    known = KnownThread(messages=LOG, closed=(closed(FRONTEND, 5), closed(other, 9)))
    assert asked([agent("r1", *parts)], known) == first
    earlier = asked([agent("r1", *parts[:1])], known)
    assert [key for key, _ in earlier.decisions] == ["k"]


def test_a_value_that_comes_twice_is_the_same_request() -> None:
    part = call("approval-responded", approval={"id": "k", "approved": False})
    known = KnownThread(messages=LOG, tickets=(ticket(),))
    first = asked([agent("r1", part)], known, answers={"k": {"amount": 1}})
    done = KnownThread(messages=LOG, closed=(closed(ticket(), 5),))
    assert asked([agent("r1", part)], done, answers={"k": {"amount": 1}}) == first


def test_a_new_message_gives_up_the_run_whose_questions_it_leaves_open() -> None:
    known = KnownThread(messages=LOG, tickets=(ticket(),))
    intake = asked([user("u1"), agent("r1", call("approval-requested")), user("u2")], known)
    assert (intake.mode, intake.decisions) == (SubmitMode.INTERRUPT, ())


# -- rewinding ----------------------------------------------------------------------------------


def test_another_answer_rewinds_to_before_the_question() -> None:
    known = KnownThread(messages=LOG)
    intake = asked([user("u1")], known, trigger="regenerate-message", messageId="r1")
    assert (intake.rewind_to, intake.mode) == ("u1", SubmitMode.INTERRUPT)
    assert [message.id for message in intake.messages] == ["u1"]


def test_an_edited_message_rewinds_to_before_it() -> None:
    known = KnownThread(messages=LOG)
    edited = user("u1", {"type": "text", "text": "bye"})
    intake = asked([edited], known, messageId="u1")
    assert (intake.rewind_to, intake.messages[0].text()) == ("u1", "bye")


def test_what_the_page_said_about_itself_is_rewound_with_its_message() -> None:
    log = (*asked([user("u1")], state={"page": 1}).messages, LOG[1])
    known = KnownThread(messages=log)
    intake = asked([user("u1")], known, trigger="regenerate-message", state={"page": 2})
    assert intake.rewind_to == log[0].id


def test_each_regeneration_is_a_request_of_its_own() -> None:
    once = asked([user("u1")], KnownThread(messages=LOG), trigger="regenerate-message")
    later = (LOG[0], Message.assistant("hi", id="m2").mark_produced_by("r2"))
    twice = asked([user("u1")], KnownThread(messages=later), trigger="regenerate-message")
    same = asked([user("u1")], KnownThread(messages=LOG), trigger="regenerate-message")
    assert once.key == same.key != twice.key


def test_a_question_that_the_log_does_not_have_is_just_asked() -> None:
    intake = asked([user("u1")], trigger="regenerate-message")
    assert (intake.rewind_to, intake.key) == (None, "message:u1")


def test_there_must_be_a_message_to_answer_once_more() -> None:
    with pytest.raises(BadRequest, match="no message to answer"):
        asked([], trigger="regenerate-message")
