"""The answers of `/v1`: threads, runs, tickets and messages, with ids as clients know them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from awaken.codec import Json, to_json
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import RunStatus, TerminationReason
from awaken.core.message import Message, MessageRecord
from awaken.core.run import RunKind, RunRecord, WaitingReason
from awaken.core.suspension import (
    AskedCall,
    ResumeAction,
    Ticket,
    TicketStatus,
    ToolCallResume,
    ToolCallResumeMode,
)
from awaken.core.thread import Thread, ThreadMetadata
from awaken.core.unreadable import RowKind, UnreadableRow
from awaken.runtime.result import RunResult
from awaken.server.call import ApiCall
from awaken.server.client_ids import ClientIds

T = TypeVar("T")


class ResponsePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an answer."""


class UnreadableView(ResponsePart, frozen=True, kw_only=True):
    """A stored row that the server cannot decode."""

    kind: RowKind
    id: str
    reason: str

    @classmethod
    def of(cls, row: UnreadableRow, ids: ClientIds) -> UnreadableView:
        return cls(kind=row.kind, id=ids.outside(row.id), reason=row.reason)


class PageView(ResponsePart, Generic[T], frozen=True, kw_only=True):
    """A part of a list. `cursor` gets the next part; it is null at the end of the list.

    `unreadable` are rows of this part that the server cannot decode; they are not among the items,
    of which there may be fewer than asked for, or none. A key that may not read the whole scope is
    not told of them.
    """

    items: tuple[T, ...]
    cursor: str | None = None
    unreadable: tuple[UnreadableView, ...] = ()


class ThreadView(ResponsePart, frozen=True, kw_only=True):
    """A thread. Times are in milliseconds since 1970."""

    id: str
    parent_thread_id: str | None
    open_run_id: str | None
    latest_run_id: str | None
    message_count: int
    event_count: int
    created_at: int
    updated_at: int
    active_at: int
    forked_from: str | None
    forked_at: int | None
    title: str | None
    labels: dict[str, str]
    custom: dict[str, Any]
    resource_id: str | None
    user: str | None
    created_by: str | None
    revision: int

    @classmethod
    def of(cls, thread: Thread, ids: ClientIds) -> ThreadView:
        metadata: ThreadMetadata = thread.metadata
        return cls(
            id=ids.outside(thread.id),
            parent_thread_id=ids.outside_if(thread.parent_thread_id),
            open_run_id=ids.outside_if(thread.open_run_id),
            latest_run_id=ids.outside_if(thread.latest_run_id),
            message_count=thread.message_count,
            event_count=thread.event_count,
            created_at=thread.created_at,
            updated_at=thread.updated_at,
            active_at=thread.active_at,
            forked_from=ids.outside_if(thread.forked_from),
            forked_at=thread.forked_at,
            title=metadata.title,
            labels=metadata.labels,
            custom=metadata.custom,
            resource_id=metadata.resource_id,
            user=metadata.user,
            created_by=metadata.created_by,
            revision=metadata.revision,
        )


class QuestionView(ResponsePart, frozen=True, kw_only=True):
    """A question that a run waits for. An answer names `key` and `digest`."""

    key: str
    tool_name: str
    arguments: Json
    answer: ToolCallResumeMode
    reason: str | None
    message: str | None
    response_schema: Json
    digest: str | None
    expires_at: int | None
    asked_by: str | None

    @staticmethod
    def fields(asked: AskedCall) -> dict[str, Any]:
        return {
            "key": asked.answered_by,
            "tool_name": asked.tool_name,
            "arguments": asked.arguments,
            "answer": asked.answer_mode,
            "reason": asked.asker.reason if asked.asker is not None else asked.reason,
            "message": asked.message,
            "response_schema": asked.response_schema,
            "digest": asked.digest,
            "expires_at": asked.expires_at,
            "asked_by": asked.asker.agent_id if asked.asker is not None else None,
        }

    @classmethod
    def of(cls, asked: AskedCall) -> QuestionView:
        return cls(**cls.fields(asked))


class DecisionView(ResponsePart, frozen=True, kw_only=True):
    """How a question was answered: `resume` is yes, `cancel` is no."""

    action: ResumeAction
    result: Json
    reason: str | None
    by: str | None
    at: int

    @classmethod
    def of(cls, given: ToolCallResume) -> DecisionView:
        return cls(
            action=given.action,
            result=given.result,
            reason=given.reason,
            by=given.by,
            at=given.updated_at,
        )


class TicketView(QuestionView, frozen=True, kw_only=True):
    """A question, the run that asks it, and the answer if there is one."""

    thread_id: str
    run_id: str
    call_id: str
    asked_at: int
    status: TicketStatus
    decision: DecisionView | None

    @classmethod
    def of_ticket(cls, ticket: Ticket, ids: ClientIds) -> TicketView:
        given = ticket.decision
        return cls(
            **cls.fields(ticket),
            thread_id=ids.outside(ticket.thread_id),
            run_id=ids.outside(ticket.run_id),
            call_id=ticket.call_id,
            asked_at=ticket.asked_at,
            status=ticket.status,
            decision=DecisionView.of(given) if given is not None else None,
        )


class RunView(ResponsePart, frozen=True, kw_only=True):
    """A run. `request` and `state` are shown to callers with the role `inspect`."""

    run_id: str
    thread_id: str
    agent_id: str
    kind: RunKind
    parent_run_id: str | None
    status: RunStatus
    termination: TerminationReason | None
    response: str | None
    waits_for: WaitingReason | None
    tickets: tuple[QuestionView, ...]
    steps: int
    usage: TokenUsage
    cost: float | None
    created_at: int
    started_at: int | None
    finished_at: int | None
    updated_at: int
    cancelled_by: str | None
    request: Json = None
    state: Json = None

    @classmethod
    def of(cls, run: RunRecord, call: ApiCall, *, has_details: bool = False) -> RunView:
        ids, waiting = call.ids, run.waiting
        return cls(
            run_id=ids.outside(run.run_id),
            thread_id=ids.outside(run.thread_id),
            agent_id=run.agent_id,
            kind=run.kind,
            parent_run_id=ids.outside_if(run.parent_run_id),
            status=run.status,
            termination=ids.reason(run.termination_reason, run.thread_id)
            if run.termination_reason
            else None,
            response=run.final_output,
            waits_for=waiting.reason if waiting is not None else None,
            tickets=tuple(map(QuestionView.of, waiting.tickets)) if waiting is not None else (),
            steps=run.steps,
            usage=_usage(run),
            cost=run.cost,
            created_at=run.created_at_ms or run.created_at * 1000,
            started_at=run.started_at_ms,
            finished_at=run.finished_at_ms,
            updated_at=run.updated_at_ms or run.updated_at * 1000,
            cancelled_by=run.cancelled_by,
            request=_request(run, ids) if has_details else None,
            state=ids.values(run.state.extensions, run.thread_id)
            if has_details and run.state is not None
            else None,
        )


class ResultView(ResponsePart, frozen=True, kw_only=True):
    """How a run ended, or the questions it waits for."""

    run_id: str
    thread_id: str
    response: str
    termination: TerminationReason
    waiting: bool
    tickets: tuple[QuestionView, ...]
    steps: int
    usage: TokenUsage
    cost: float | None

    @classmethod
    def of(cls, result: RunResult, ids: ClientIds) -> ResultView:
        return cls(
            run_id=ids.outside(result.run_id),
            thread_id=ids.outside(result.thread_id),
            response=result.response,
            termination=ids.reason(result.termination, result.thread_id),
            waiting=result.waiting,
            tickets=tuple(map(QuestionView.of, result.tickets)),
            steps=result.steps,
            usage=result.usage,
            cost=result.cost,
        )


class MessageView(ResponsePart, frozen=True, kw_only=True):
    """A message of a thread's log, with its position `seq`."""

    seq: int
    message: Message

    @classmethod
    def of(cls, record: MessageRecord, ids: ClientIds) -> MessageView:
        return cls(seq=record.seq, message=ids.message(record.message))


def _usage(run: RunRecord) -> TokenUsage:
    return TokenUsage(
        prompt_tokens=run.input_tokens,
        completion_tokens=run.output_tokens,
        total_tokens=run.input_tokens + run.output_tokens,
    )


def _request(run: RunRecord, ids: ClientIds) -> Json:
    if run.request is None:
        return None
    shown = to_json(run.request)
    shown.pop("principal", None)
    if "parent_thread_id" in shown:
        shown["parent_thread_id"] = ids.outside_if(shown["parent_thread_id"])
    return ids.values(shown, run.thread_id)
