"""Tools that send messages to other agents and handle messages that could not be delivered.

The tools have no transport: a message is committed with the call's outcome, and `outbox` sends it
after that commit.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from awaken.codec import Json
from awaken.core.identity import RunIdentity
from awaken.core.state.command import Command
from awaken.core.task import DurableMessageRequest
from awaken.core.tool import ToolDescriptor, ToolEffect, ToolError, ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput, ToolTraits
from awaken.ext.tasks.manager import BackgroundTaskManager
from awaken.ext.tasks.state import (
    BACKGROUND_TASK_STATE,
    FAILED_MESSAGES,
    OUTBOX,
    ClearFailedMessages,
    DurableRoute,
    Enqueue,
    FailedMessage,
    LiveInboxRoute,
    OutboxEntry,
)
from awaken.ext.tasks.task import current_background_task_context
from awaken.ext.tasks.task_tools import find_named, relation_of, require_text

SEND_MESSAGE_TOOL_ID = "send_message"
RECOVER_TOOL_ID = "recover_failed_messages"

RECIPIENT_NOT_FOUND = "recipient_not_found"
RECIPIENT_UNAVAILABLE = "recipient_unavailable"
NOT_AUTHORIZED = "not_authorized"

MessagePolicy = Callable[[RunIdentity, str, str | None], str | Awaitable[str | None] | None]
"""Takes the sending run, a thread id and an agent id. Returns why the run may not send messages
there, or `None` if it may."""


class _SendRefused(Exception):
    """A message that is not sent."""

    def __init__(self, error: str, reason: str | None = None) -> None:
        super().__init__(error)
        self.error, self.reason = error, reason


class SendMessageTool:
    """`send_message`: write to the parent agent, to a child task, or to any agent the policy
    allows."""

    # The message is sent before the step is committed, so a second attempt must send the same one.
    traits = ToolTraits(effect=ToolEffect.IDEMPOTENT)

    def __init__(self, manager: BackgroundTaskManager, policy: MessagePolicy | None = None) -> None:
        self._manager = manager
        self._policy = policy

    def descriptor(self) -> ToolDescriptor:
        return _SEND

    def validate_args(self, args: Json) -> Json:
        relation, to = relation_of(args, "to")
        if relation == "child":
            require_text(to, "child", "name")
        elif relation == "agent":
            require_text(to, "agent", "thread_id")
        if not isinstance(args.get("message"), str):
            raise ToolError.invalid_arguments("missing 'message'")
        if relation not in ("parent", "child", "agent"):
            raise ToolError.invalid_arguments(f"unknown relation '{relation}'")
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        key = ctx.idempotency_key
        message_id = f"{key}>message" if key else self._manager.handles.ids.new()
        try:
            route = await self._route(args["to"], args["message"], message_id, ctx)
        except _SendRefused as refused:
            receipt = {"message_id": "", "status": "failed", "error": refused.error}
            if refused.reason is not None:
                receipt["reason"] = refused.reason
            return ToolOutput(ToolResult.success(SEND_MESSAGE_TOOL_ID, receipt))
        receipt = {"message_id": message_id, "status": "queued"}
        entry = OutboxEntry(id=message_id, route=route)
        return ToolOutput(
            ToolResult.success(SEND_MESSAGE_TOOL_ID, receipt),
            Command().update(OUTBOX, Enqueue(entry=entry)),
        )

    async def _route(
        self, to: Json, text: str, message_id: str, ctx: ToolCallContext
    ) -> LiveInboxRoute | DurableRoute:
        identity = ctx.run_identity
        if to["relation"] == "child":
            return self._to_child(to["name"], text, ctx)
        if to["relation"] == "parent":
            thread_id, agent_id = _thread_above(identity), None
            if thread_id is None:
                raise _SendRefused(RECIPIENT_UNAVAILABLE)
        else:
            thread_id, agent_id = to["thread_id"], to.get("agent_id") or None
            await self._authorize(identity, thread_id, agent_id)
        return DurableRoute(
            request=DurableMessageRequest(
                message_id=message_id,
                recipient_thread_id=thread_id,
                recipient_agent_id=agent_id,
                sender_agent_id=identity.agent_id,
                message=text,
            )
        )

    def _to_child(self, name: str, text: str, ctx: ToolCallContext) -> LiveInboxRoute:
        thread_id = ctx.run_identity.thread_id
        state = ctx.state(BACKGROUND_TASK_STATE)
        task = find_named(
            [
                task
                for task in (state.tasks if state else {}).values()
                if task.owner_thread_id == thread_id and not task.is_terminal
            ],
            name,
        )
        if task is None:
            raise _SendRefused(RECIPIENT_NOT_FOUND)
        if not self._manager.has_inbox(task):
            raise _SendRefused(RECIPIENT_UNAVAILABLE)
        return LiveInboxRoute(
            task_id=task.task_id,
            owner_thread_id=thread_id,
            sender_agent_id=ctx.run_identity.agent_id,
            message=text,
        )

    async def _authorize(self, sender: RunIdentity, thread_id: str, agent_id: str | None) -> None:
        if self._policy is None:
            raise _SendRefused(NOT_AUTHORIZED)
        refusal = self._policy(sender, thread_id, agent_id)
        if inspect.isawaitable(refusal):
            refusal = await refusal
        if refusal is not None:
            raise _SendRefused(NOT_AUTHORIZED, refusal)


def _thread_above(identity: RunIdentity) -> str | None:
    """The thread that started a run; for a run inside a background task, the thread that owns the
    task."""
    above, task = identity.parent_thread_id_opt(), current_background_task_context()
    if task is not None and above == task.record.uid:
        return task.record.owner_thread_id or None
    return above


class RecoverFailedMessagesTool:
    """`recover_failed_messages`: list messages that could not be delivered, resend or discard
    them."""

    traits = ToolTraits(effect=ToolEffect.READ)

    def descriptor(self) -> ToolDescriptor:
        return _RECOVER

    def validate_args(self, args: Json) -> Json:
        action = args.get("action", "list") if isinstance(args, dict) else "list"
        if action not in ("list", "replay", "clear"):
            raise ToolError.invalid_arguments(f"unknown action '{action}'")
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        action = args.get("action", "list")
        failed = ctx.state(FAILED_MESSAGES)
        messages = failed.messages if failed is not None else ()
        data: dict[str, Json] = {"action": action, "count": len(messages)}
        if action == "list":
            data["messages"] = [_render_failed_message(message) for message in messages]
            return ToolOutput(ToolResult.success(RECOVER_TOOL_ID, data))
        command = Command()
        if action == "replay":
            for message in messages:
                route = DurableRoute(request=message.request)
                entry = OutboxEntry(id=message.request.message_id, route=route)
                command.update(OUTBOX, Enqueue(entry=entry))
        if messages:
            command.update(FAILED_MESSAGES, ClearFailedMessages())
        return ToolOutput(ToolResult.success(RECOVER_TOOL_ID, data), command)


def _render_failed_message(message: FailedMessage) -> Json:
    request = message.request
    return {
        "message_id": request.message_id,
        "recipient_thread_id": request.recipient_thread_id,
        "recipient_agent_id": request.recipient_agent_id,
        "error": message.error,
    }


_SEND = ToolDescriptor(
    id=SEND_MESSAGE_TOOL_ID,
    name=SEND_MESSAGE_TOOL_ID,
    description=(
        "Write to another agent: to the one that started you (parent), to a background task you "
        "started (child, by name or task id), or to the agent of another conversation (agent, by "
        "thread_id)."
    ),
    parameters={
        "type": "object",
        "properties": {
            "to": {
                "type": "object",
                "properties": {
                    "relation": {"type": "string", "enum": ["parent", "child", "agent"]},
                    "name": {"type": "string"},
                    "thread_id": {"type": "string"},
                    "agent_id": {"type": "string"},
                },
                "required": ["relation"],
            },
            "message": {"type": "string"},
        },
        "required": ["to", "message"],
    },
)
_RECOVER = ToolDescriptor(
    id=RECOVER_TOOL_ID,
    name=RECOVER_TOOL_ID,
    description="List messages that could not be delivered, send them again, or discard them.",
    parameters={
        "type": "object",
        "properties": {"action": {"type": "string", "enum": ["list", "replay", "clear"]}},
        "required": [],
    },
)
