"""What a tool says about itself and what it answers; gates and policies (01 §1.3, §1.9)."""

from __future__ import annotations

import pytest

from awaken.codec import Json, dumps, loads, to_json
from awaken.core.intercept import (
    Allow,
    AuditOnly,
    Block,
    Deny,
    ReplaceResult,
    SetResult,
    Suspend,
    ToolInterceptPayload,
    ToolPolicyDecision,
    intercept_to_json,
    policy_payload,
    priority,
)
from awaken.core.suspension import SuspendTicket, Suspension, ToolCallOutcome
from awaken.core.tool import (
    ToolDescriptor,
    ToolError,
    ToolErrorKind,
    ToolKind,
    ToolResult,
    ToolStatus,
)

TICKET = SuspendTicket(suspension=Suspension(id="s1", action="approve"))


def test_a_minimal_descriptor_writes_its_category_as_null_and_no_metadata() -> None:
    descriptor = ToolDescriptor(id="search", name="search", description="Find things.")

    assert to_json(descriptor) == {
        "id": "search",
        "name": "search",
        "description": "Find things.",
        "parameters": {"type": "object", "properties": {}},
        "category": None,
    }
    assert loads(dumps(descriptor), ToolDescriptor) == descriptor


def test_descriptors_do_not_share_their_default_parameters() -> None:
    one = ToolDescriptor(id="a", name="a", description="")
    two = ToolDescriptor(id="b", name="b", description="")

    assert one.parameters is not two.parameters


@pytest.mark.parametrize(
    ("result", "status", "data", "message"),
    [
        (ToolResult.success("t", {"n": 1}), "success", {"n": 1}, None),
        (ToolResult.success_with_message("t", [1], "one"), "success", [1], "one"),
        (ToolResult.error("t", "broke"), "error", None, "broke"),
        (
            ToolResult.error_with_code("t", "E1", "broke"),
            "error",
            {"error": {"code": "E1", "message": "broke"}},
            "[E1] broke",
        ),
        (ToolResult.suspended("t", "wait"), "pending", None, "wait"),
    ],
)
def test_builders_of_results(
    result: ToolResult, status: str, data: Json, message: str | None
) -> None:
    assert to_json(result) == {
        "tool_name": "t",
        "status": status,
        "data": data,
        "message": message,
    }
    assert loads(dumps(result), ToolResult) == result


def test_a_suspended_result_carries_its_ticket() -> None:
    result = ToolResult.suspended_with("t", "sure?", TICKET)

    assert result.status is ToolStatus.PENDING
    assert result.outcome is ToolCallOutcome.SUSPENDED
    assert loads(dumps(result), ToolResult).suspension == TICKET


def test_the_model_reads_the_message_or_else_the_data_as_compact_json() -> None:
    assert ToolResult.success("t", {"a": [1, "é"]}).model_text() == '{"a":[1,"é"]}'
    assert ToolResult.success("t").model_text() == "null"
    assert ToolResult.success_with_message("t", {"a": 1}, "one").model_text() == "one"
    assert ToolResult.success_with_message("t", {"a": 1}, "").model_text() == ""


@pytest.mark.parametrize(
    ("result", "payload"),
    [
        (ToolResult.success("t", {"n": 1}), {"n": 1}),
        (
            ToolResult(
                tool_name="t", status=ToolStatus.SUCCESS, data={"n": 1}, metadata={"took": 3}
            ),
            {"data": {"n": 1}, "metadata": {"took": 3}},
        ),
        (ToolResult.error("t", "broke"), {"error": "broke"}),
        (ToolResult(tool_name="t", status=ToolStatus.ERROR, data={"code": 3}), {"code": 3}),
        (ToolResult.suspended("t", "wait"), None),
        (ToolResult(tool_name="t", status=ToolStatus.PENDING, data={"so": "far"}), None),
    ],
)
def test_the_resume_payload_of_a_result(result: ToolResult, payload: Json) -> None:
    assert result.resume_payload() == payload


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [
        ("invalid_arguments", "Invalid arguments: "),
        ("execution_failed", "Execution failed: "),
        ("denied", "Denied: "),
        ("not_found", "Not found: "),
        ("internal", "Internal error: "),
        ("timeout", "Timeout: "),
        ("cancelled", "Cancelled: "),
    ],
)
def test_tool_errors_print_their_kind(kind: str, prefix: str) -> None:
    error = getattr(ToolError, kind)("why")

    assert isinstance(error, ToolError)
    assert str(error) == f"{prefix}why"
    assert (error.kind, error.message) == (ToolErrorKind(kind), "why")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("edit_file", ToolKind.EDIT),
        ("writeFile", ToolKind.EDIT),
        ("search_and_replace", ToolKind.EDIT),
        ("web_search", ToolKind.SEARCH),
        ("find", ToolKind.SEARCH),
        ("list_files", ToolKind.READ),
        ("http.get", ToolKind.READ),
        ("run_command", ToolKind.EXECUTE),
        ("Bash", ToolKind.EXECUTE),
        ("weather", ToolKind.OTHER),
        ("merge", ToolKind.OTHER),
        ("tools", ToolKind.OTHER),
        ("", ToolKind.OTHER),
    ],
)
def test_the_kind_of_a_tool_is_guessed_from_whole_words(name: str, kind: ToolKind) -> None:
    """D-25: word parts, not substrings; "merge" holds no "rg" and "tools" no "ls"."""
    assert ToolKind.guess(name) is kind


def test_a_declared_kind_beats_the_guess() -> None:
    """D-25: descriptors may declare their kind."""
    guessed = ToolDescriptor(id="x", name="search", description="")
    declared = ToolDescriptor(id="x", name="search", description="", kind=ToolKind.EXECUTE)

    assert guessed.tool_kind is ToolKind.SEARCH
    assert declared.tool_kind is ToolKind.EXECUTE


def test_block_beats_suspend_beats_set_result() -> None:
    """01/P-14: the priorities behind the gate's choice."""
    payloads: list[ToolInterceptPayload] = [
        SetResult(result=ToolResult.success("t")),
        Block(reason="no"),
        Suspend(ticket=TICKET),
    ]

    assert [type(p) for p in sorted(payloads, key=priority, reverse=True)] == [
        Block,
        Suspend,
        SetResult,
    ]


def test_intercepts_are_tagged_from_outside() -> None:
    result = ToolResult.success("t", 1)

    assert loads(dumps(intercept_to_json(Block(reason="no")))) == {"Block": {"reason": "no"}}
    assert loads(dumps(intercept_to_json(Suspend(ticket=TICKET)))) == {"Suspend": to_json(TICKET)}
    assert loads(dumps(intercept_to_json(SetResult(result=result)))) == {
        "SetResult": to_json(result)
    }


@pytest.mark.parametrize(
    ("decision", "payload"),
    [
        (Allow(), None),
        (AuditOnly(), None),
        (Deny(reason="no"), Block(reason="no")),
        (Suspend(ticket=TICKET), Suspend(ticket=TICKET)),
        (ReplaceResult(result=ToolResult.success("t")), SetResult(result=ToolResult.success("t"))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_policy_means_at_the_gate(
    decision: ToolPolicyDecision, payload: ToolInterceptPayload | None
) -> None:
    assert policy_payload(decision) == payload
