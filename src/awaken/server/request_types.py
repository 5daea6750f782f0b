"""The queries and bodies of `/v1`. All types refuse fields that they do not know."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from awaken.core.budget import Budget
from awaken.core.inference import EffortWord, InferenceOverride, ReasoningBudget, ReasoningEffort
from awaken.core.message import Message, as_messages
from awaken.core.store.commands import SubmitMode
from awaken.core.thread import ThreadPatch
from awaken.core.tool import ToolDescriptor
from awaken.server.auth import MAX_TOKEN_SECONDS

NEW_ID = r"^[A-Za-z0-9._:@=+-]{1,200}$"
"""How a client may name a new thread, as `awaken.core.thread_ids` has it."""

CURSOR = r"^[0-9]{1,15}(\.[0-9]{1,15}\.[0-9]{1,15})?$"
"""How the cursor of a stream is written."""

KEY = r"^[!-~]{1,255}$"
"""How an idempotency key is written."""

Id = Annotated[str, Meta(min_length=1, max_length=200)]
NewId = Annotated[str, Meta(pattern=NEW_ID)]
Line = Annotated[str, Meta(max_length=2_000)]
Label = Annotated[str, Meta(max_length=200)]
Labels = dict[Annotated[str, Meta(min_length=1, max_length=200, pattern="^[^=]*$")], Label]
Count = Annotated[int, Meta(ge=0, le=2**53)]
CursorText = Annotated[str, Meta(pattern=CURSOR)]
Whole = Annotated[float, Meta(ge=1, le=10**15, multiple_of=1)]
"""A whole number in a body. In JSON `5.0` is one, so it is read as a float, which is exact here."""
PageSize = Annotated[int, Meta(ge=1, le=1_000)]
Seconds = Annotated[float, Meta(ge=0, le=600)]


def whole(given: float | None) -> int | None:
    return None if given is None else int(given)


class RequestPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a request."""


class GivenBase64(RequestPart, frozen=True, kw_only=True, tag="base64", tag_field="type"):
    """Media in the request itself."""

    media_type: Line
    data: str


class GivenUrl(RequestPart, frozen=True, kw_only=True, tag="url", tag_field="type"):
    """Media that the model's provider fetches."""

    url: Annotated[str, Meta(max_length=10_000)]


class GivenText(RequestPart, frozen=True, kw_only=True, tag="text", tag_field="type"):
    """Text."""

    text: str


class GivenMedia(RequestPart, frozen=True, kw_only=True, tag_field="type"):
    """Media, inside the request or elsewhere."""

    source: GivenBase64 | GivenUrl


class GivenImage(GivenMedia, frozen=True, kw_only=True, tag="image"):
    """A picture."""


class GivenAudio(GivenMedia, frozen=True, kw_only=True, tag="audio"):
    """Sound."""


class GivenVideo(GivenMedia, frozen=True, kw_only=True, tag="video"):
    """Moving pictures."""


class GivenDocument(GivenMedia, frozen=True, kw_only=True, tag="document"):
    """A file, such as a PDF."""

    title: Line | None = None


GivenContent = GivenText | GivenImage | GivenAudio | GivenVideo | GivenDocument


class GivenMessage(RequestPart, frozen=True, kw_only=True):
    """A message to an agent."""

    role: Literal["user", "assistant", "system"] = "user"
    content: (
        Annotated[str, Meta(min_length=1)] | Annotated[tuple[GivenContent, ...], Meta(min_length=1)]
    )
    id: Id | None = None

    def message(self) -> Message:
        content = self.content
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        fields = {"id": self.id, "role": self.role, "content": msgspec.to_builtins(blocks)}
        return msgspec.convert(fields, Message)


GivenMessages = Annotated[
    tuple[GivenMessage | Annotated[str, Meta(min_length=1)], ...],
    Meta(min_length=1, max_length=1_000),
]


def messages_of(given: tuple[GivenMessage | str, ...]) -> tuple[Message, ...]:
    """The messages of a request, each with an id."""
    return as_messages([one if isinstance(one, str) else one.message() for one in given])


class GivenTool(RequestPart, frozen=True, kw_only=True):
    """A tool that the client carries out itself."""

    id: Id
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(
            id=self.id, name=self.id, description=self.description, parameters=self.parameters
        )


class GivenBudget(RequestPart, frozen=True, kw_only=True):
    """The most that a run, with all it starts, may use; what is left out has no limit."""

    tokens: Whole | None = None
    money: Annotated[float, Meta(gt=0)] | None = None
    steps: Whole | None = None
    seconds: Annotated[float, Meta(gt=0)] | None = None
    at_limit: Literal["stop", "ask"] = "stop"
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0

    def budget(self) -> Budget:
        return Budget(
            tokens=whole(self.tokens),
            money=self.money,
            steps=whole(self.steps),
            seconds=self.seconds,
            at_limit=self.at_limit,
            share=self.share,
        )


class GivenReasoning(RequestPart, frozen=True, kw_only=True):
    """Reasoning effort as a number of tokens."""

    budget: Whole


class GivenOverrides(RequestPart, frozen=True, kw_only=True):
    """Parameters of the model for one run; what is left out is as the agent has it."""

    upstream_model: Id | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    max_tokens: Whole | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    reasoning_effort: EffortWord | GivenReasoning | None = None

    def settings(self) -> InferenceOverride:
        given = self.reasoning_effort
        effort: ReasoningEffort | None = (
            ReasoningBudget(budget=int(given.budget))
            if isinstance(given, GivenReasoning)
            else given
        )
        return InferenceOverride(
            upstream_model=self.upstream_model,
            temperature=self.temperature,
            max_tokens=whole(self.max_tokens),
            top_p=self.top_p,
            reasoning_effort=effort,
        )


class RunAsked(RequestPart, frozen=True, kw_only=True):
    """A run that is asked for.

    Without `agent_id` it is the thread's last active agent, or the only agent there is. `mode` says
    what happens if a run of the thread is open.
    """

    agent_id: Id | None = None
    messages: GivenMessages
    mode: SubmitMode = SubmitMode.QUEUE
    not_before: Annotated[datetime, Meta(tz=True)] | None = None
    settings: GivenOverrides | None = None
    budget: GivenBudget | None = None
    frontend_tools: tuple[GivenTool, ...] = ()
    user: Line | None = None
    labels: Labels = {}


class NewRunAsked(RunAsked, frozen=True, kw_only=True):
    """A run that is asked for, in a new thread unless `thread_id` names one."""

    thread_id: NewId | None = None


class MessagesGiven(RequestPart, frozen=True, kw_only=True):
    """Messages for a run that works."""

    messages: GivenMessages


class ThreadAsked(RequestPart, frozen=True, kw_only=True):
    """A new thread; without `id` it gets one."""

    id: NewId | None = None
    title: Line | None = None
    labels: Labels = {}
    custom: dict[str, Any] = {}
    resource_id: Line | None = None
    user: Line | None = None

    def patch(self) -> ThreadPatch:
        return ThreadPatch(
            title=self.title,
            labels=dict(self.labels),
            custom=self.custom,
            resource_id=self.resource_id,
            user=self.user,
        )


class ThreadChanges(RequestPart, frozen=True, kw_only=True):
    """Changes of a thread; null removes a value, what is left out stays. `labels` and `custom` are
    changed name by name."""

    title: Line | UnsetType | None = UNSET
    labels: dict[
        Annotated[str, Meta(min_length=1, max_length=200, pattern="^[^=]*$")], Label | None
    ] = {}
    custom: dict[str, Any] = {}
    resource_id: Line | UnsetType | None = UNSET
    user: Line | UnsetType | None = UNSET

    def patch(self) -> ThreadPatch:
        return ThreadPatch(
            title=self.title,
            labels=dict(self.labels),
            custom=self.custom,
            resource_id=self.resource_id,
            user=self.user,
        )


class ForkAsked(RequestPart, frozen=True, kw_only=True):
    """A copy of a thread, as it was after the step that event `at` belongs to."""

    at: Whole | None = None
    id: NewId | None = None


class DecisionGiven(RequestPart, frozen=True, kw_only=True):
    """An answer to a ticket. `digest` is that of the question which the approver has seen. `result`
    is the answer itself if the question wants one, and for `edit` the call's new arguments."""

    ticket: Id
    action: Literal["approve", "deny", "edit"]
    digest: Id
    result: Any = None
    reason: Line | None = None


class TokenAsked(RequestPart, frozen=True, kw_only=True):
    """A stream token: for a thread, which need not exist yet, or for one `path` alone, such as that
    of a run's events. Without `roles` it has those of the caller that concern one thread."""

    thread_id: NewId | UnsetType = UNSET
    path: Annotated[str, Meta(pattern="^/", max_length=2_000)] | UnsetType = UNSET
    ttl: Annotated[float, Meta(gt=0, le=MAX_TOKEN_SECONDS)] = MAX_TOKEN_SECONDS
    roles: tuple[Literal["invoke", "read", "decide"], ...] | None = None

    def __post_init__(self) -> None:
        if (self.thread_id is UNSET) == (self.path is UNSET):
            raise ValueError("give either thread_id or path")


OneTokenAsked = Annotated[
    TokenAsked,
    Meta(extra_json_schema={"oneOf": [{"required": ["thread_id"]}, {"required": ["path"]}]}),
]
