"""Messages as parts, parts as text, and tasks as outcomes."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.types.a2a_pb2 import Message as A2aMessage
from a2a.types.a2a_pb2 import StreamResponse, Task
from google.protobuf.json_format import MessageToDict, ParseDict

from awaken.backend.a2a.messages import message_id, parts_of, select_unanswered, sendable_messages
from awaken.backend.a2a.snapshot import (
    TaskSnapshot,
    outcome_of,
    outcome_of_message,
    timeout_outcome,
)
from awaken.core.backend import BackendStatusKind, ExecutionFailed
from awaken.core.message import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolUse,
    UrlSource,
    Video,
)


def snapshot(**task: Any) -> TaskSnapshot:
    return TaskSnapshot(ParseDict({"id": "t", "contextId": "c", **task}, Task()))


def status(state: str, text: str | None = None) -> dict[str, Any]:
    said = {"message": agent_says(text)} if text else {}
    return {"state": f"TASK_STATE_{state}", **said}


def agent_says(text: str) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}


def artifact(*parts: Any, id: str = "a") -> dict[str, Any]:
    texts = [{"text": part} if isinstance(part, str) else part for part in parts]
    return {"artifactId": id, "parts": texts}


# -- what goes out ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (Text(text="hi"), {"text": "hi"}),
        (Text(text="half \ud83d"), {"text": "half \ufffd"}),
        (
            Image(source=UrlSource(url="https://x.example/a.webp?w=1#top")),
            {"url": "https://x.example/a.webp?w=1#top", "mediaType": "image/webp"},
        ),
        (
            Document(source=UrlSource(url="https://x.example/r.pdf"), title="Report"),
            {
                "url": "https://x.example/r.pdf",
                "mediaType": "application/pdf",
                "filename": "Report",
            },
        ),
        (
            Audio(source=UrlSource(url="https://x.example/sound")),
            {"url": "https://x.example/sound"},
        ),
        (
            Video(source=Base64Source(media_type="video/mp4", data="AAE=")),
            {"raw": "AAE=", "mediaType": "video/mp4"},
        ),
    ],
)
def test_content_becomes_a_part(block: ContentBlock, part: dict[str, Any]) -> None:
    (made,) = parts_of(Message.user_with_content([block]))
    assert MessageToDict(made) == part


@pytest.mark.parametrize("block", [Thinking(thinking="hm"), ToolUse(id="1", name="n", input={})])
def test_what_is_not_for_the_agent_is_left_out(block: ContentBlock) -> None:
    message = Message.user_with_content([block])
    assert parts_of(message) == []
    assert sendable_messages([message]) == []


def test_nothing_is_said_only_if_nothing_else_is() -> None:
    nothing, something = Text(text=""), Text(text="x")
    assert [part.text for part in parts_of(Message.user_with_content([nothing]))] == [""]
    both = Message.user_with_content([nothing, something])
    assert [part.text for part in parts_of(both)] == ["x"]


def test_media_that_is_not_base64_is_an_error() -> None:
    message = Message.user_with_content(
        [Image(source=Base64Source(media_type="image/png", data="?"))]
    )
    with pytest.raises(ExecutionFailed, match="image/png in a message is not base64"):
        parts_of(message)


def test_the_same_messages_of_a_run_have_the_same_id() -> None:
    one, two = Message.user("a", id="1"), Message.user("b", id="2")
    assert message_id("r", [one, two]) == message_id("r", [one, two])
    ids = {message_id(run, messages) for run in "rs" for messages in ([one], [two], [one, two])}
    assert len(ids) == 6


def test_what_nobody_has_answered_stands_behind_the_last_answer() -> None:
    a, b, c = Message.user("a"), Message.assistant("b"), Message.user("c")
    assert list(select_unanswered([a, b, c])) == [c]
    assert list(select_unanswered([a, c])) == [a, c]
    assert list(select_unanswered([a, b])) == []


# -- what comes in ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ({"artifacts": [artifact("made")], "status": status("COMPLETED", "said")}, "made"),
        (
            {
                "artifacts": [artifact({"raw": "AAE="}), artifact("second", id="b")],
                "status": status("COMPLETED"),
            },
            "second",
        ),
        (
            {
                "artifacts": [artifact({"url": "https://x.example"})],
                "status": status("COMPLETED", "said"),
            },
            "said",
        ),
        (
            {
                "status": status("COMPLETED"),
                "history": [
                    agent_says("older"),
                    agent_says("newest"),
                    {**agent_says("mine"), "role": "ROLE_USER"},
                ],
            },
            "newest",
        ),
        ({"artifacts": [artifact("Hel", "lo")], "status": status("COMPLETED")}, "Hello"),
        (
            {
                "artifacts": [artifact("Table:", {"data": {"b": 1.5, "a": 2}}, "end")],
                "status": status("COMPLETED"),
            },
            'Table:\n\n{"a":2,"b":1.5}\n\nend',
        ),
        (
            {
                "status": {
                    "state": "TASK_STATE_COMPLETED",
                    "message": {"messageId": "m", "parts": [{"text": "a"}, {"text": "b"}]},
                }
            },
            "a\n\nb",
        ),
        ({"status": status("COMPLETED")}, None),
    ],
)
def test_the_text_is_made_else_said_else_remembered(task: dict[str, Any], text: str | None) -> None:
    """03/MH-5 output prefers artifacts."""
    outcome = outcome_of(snapshot(**task))
    assert outcome.status.kind is BackendStatusKind.COMPLETED
    assert outcome.output.text == text


def test_a_question_stands_behind_what_was_made_so_far() -> None:
    outcome = outcome_of(
        snapshot(artifacts=[artifact("a draft")], status=status("INPUT_REQUIRED", "go on?"))
    )
    assert outcome.status.message == "go on?"
    assert outcome.output.text == "a draft\n\ngo on?"


def test_what_is_there_when_time_runs_out_is_kept_but_not_what_was_said_of_it() -> None:
    working = snapshot(status=status("WORKING", "still at it"))
    assert timeout_outcome(working).output.text is None
    half = snapshot(artifacts=[artifact("half")], status=status("WORKING", "still at it"))
    assert timeout_outcome(half).output.text == "half"
    assert timeout_outcome(None).status.kind is BackendStatusKind.TIMEOUT


def test_a_cancelled_task_is_a_cancelled_run() -> None:
    outcome = outcome_of(snapshot(status=status("CANCELED", "as you wish")))
    assert outcome.status.kind is BackendStatusKind.CANCELLED
    assert outcome.output.text is None


def test_a_message_besides_a_task_holds_text_and_artifacts() -> None:
    message = ParseDict(
        {"messageId": "m", "parts": [{"text": "a"}, {"data": [1]}, {"url": "https://x.example"}]},
        A2aMessage(),
    )
    outcome = outcome_of_message(message)
    assert outcome.output.text == "a\n\n[1]"
    assert [(one.id, one.media_type) for one in outcome.output.artifacts] == [
        ("m:1", "application/json"),
        ("m:2", None),
    ]


# -- streams ----------------------------------------------------------------------------------


def apply_event(now: TaskSnapshot, **event: Any) -> None:
    now.apply(ParseDict(event, StreamResponse()))


def chunk(text: str, *, append: bool, id: str = "a", task: str = "t") -> dict[str, Any]:
    return {"taskId": task, "artifact": artifact(text, id=id), "append": append}


def test_pieces_are_appended_replaced_or_begun() -> None:
    """03/MH-5 artifact append accumulates."""
    now = snapshot(status=status("WORKING"))
    apply_event(now, artifactUpdate=chunk("never begun ", append=True))
    apply_event(now, artifactUpdate=chunk("but there", append=True))
    assert now.text == "never begun but there"
    apply_event(now, artifactUpdate=chunk("other", append=False, id="b"))
    apply_event(now, artifactUpdate=chunk("anew", append=False))
    assert [one.content["parts"] for one in now.artifacts] == [
        [{"text": "anew"}],
        [{"text": "other"}],
    ]


def test_a_status_says_where_the_task_stands_and_the_one_before_is_history() -> None:
    now = snapshot(status=status("WORKING", "on it"))
    assert now.progress().content["text"] == "on it"
    apply_event(now, statusUpdate={"taskId": "t", "status": status("COMPLETED")})
    assert now.is_done
    assert now.text == "on it"


def test_a_whole_task_replaces_what_was_known() -> None:
    now = snapshot(status=status("WORKING"), artifacts=[artifact("old")])
    apply_event(now, task={"id": "t", "contextId": "c", "status": status("FAILED", "broke")})
    assert now.progress().content == {
        "schema": "a2a-task-progress.v1",
        "task_id": "t",
        "context_id": "c",
        "state": "TASK_STATE_FAILED",
        "text": None,
        "artifacts": [],
        "failure_message": "broke",
    }


def test_what_is_told_of_other_tasks_changes_nothing() -> None:
    now = snapshot(status=status("WORKING"))
    apply_event(now, task={"id": "other", "status": status("COMPLETED")})
    apply_event(now, statusUpdate={"taskId": "other", "status": status("COMPLETED")})
    apply_event(now, artifactUpdate=chunk("x", append=False, task="other"))
    apply_event(now, message=agent_says("a word in between"))
    assert now.state == "TASK_STATE_WORKING"
    assert now.artifacts == ()


def test_a_state_of_the_future_is_nothing_to_act_upon() -> None:
    now = snapshot(status={"state": 99})
    assert now.state == "TASK_STATE_UNSPECIFIED"
    assert not now.is_done
