"""Agents, models, providers and endpoints as data.

A model pool is several models under one id that replace one another when one fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

import msgspec
from msgspec import Meta

from awaken.codec import Json, from_json
from awaken.core.budget import Budget
from awaken.core.inference import ContextWindowPolicy, ModelSettings, OutputFormat, ReasoningEffort
from awaken.core.secret import RedactedString, SpecSecret
from awaken.core.value import Value, nullable
from awaken.errors import ConfigError, KeyDecode

T = TypeVar("T")


# -- agents -----------------------------------------------------------------------------------


class ToolExecutorKind(StrEnum):
    """How the tool calls of one step are run.

    `sequential` runs them one after another, each with the state that the one before left, up to
    the first that suspends. The other two run them in parallel on one snapshot; `batch_approval`
    resumes suspended calls once all are decided, `streaming` resumes each as soon as it is.
    """

    SEQUENTIAL = "sequential"
    PARALLEL_BATCH_APPROVAL = "parallel_batch_approval"
    PARALLEL_STREAMING = "parallel_streaming"


def _pattern(glob: str) -> re.Pattern[str]:
    """A glob for whole names: `*` matches any characters, `\\` escapes the next character."""
    if not glob:
        raise ConfigError("a tool pattern must not be empty")
    parts: list[str] = []
    letters = iter(glob)
    for letter in letters:
        if letter == "\\":
            escaped = next(letters, None)
            if escaped is None:
                raise ConfigError(f"tool pattern {glob!r} ends in a lone backslash")
            parts.append(re.escape(escaped))
        else:
            parts.append(".*" if letter == "*" else re.escape(letter))
    return re.compile("".join(parts), re.DOTALL)


class ToolSelection(Value, frozen=True, kw_only=True):
    """Which tools an agent sees: the allowed ones minus the excluded ones."""

    allowed: tuple[str, ...] | None = None
    allowed_patterns: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()

    def visible(self, ids: Iterable[str]) -> set[str]:
        everything = self.allowed is None and self.allowed_patterns is None
        allow = [_pattern(glob) for glob in self.allowed_patterns or ()]
        deny = [_pattern(glob) for glob in self.excluded_patterns]
        chosen = set(self.allowed or ())
        return {
            id
            for id in ids
            if (everything or id in chosen or any(p.fullmatch(id) for p in allow))
            and id not in self.excluded
            and not any(p.fullmatch(id) for p in deny)
        }

    def find_unmatched(self, ids: Iterable[str]) -> list[str]:
        """The patterns that match no tool, which is usually a typing error."""
        existing = list(ids)
        globs = (*(self.allowed_patterns or ()), *self.excluded_patterns)
        return [glob for glob in globs if not any(_pattern(glob).fullmatch(id) for id in existing)]


class AgentSpec(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent as data.

    `allowed_tools` and `allowed_tool_patterns` together select the tools it sees; without both it
    sees all tools, and an empty list allows none. An answer that does not fit `output` is sent
    back to the model at most `max_output_retries` times. A call of one of the `background_tools`
    starts a task and does not wait for it.
    """

    id: str
    model_id: str
    system_prompt: str
    description: str | None = None
    max_rounds: int = msgspec.field(default_factory=lambda: 16)
    max_continuation_retries: int = msgspec.field(default_factory=lambda: 2)
    output: OutputFormat | None = None
    max_output_retries: int = 2
    context_policy: ContextWindowPolicy | None = None
    reasoning_effort: ReasoningEffort | None = None
    settings: ModelSettings | None = None
    plugin_ids: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    active_hook_filter: frozenset[str] = frozenset()
    allowed_tools: tuple[str, ...] | None = nullable()
    excluded_tools: tuple[str, ...] | None = nullable()
    allowed_tool_patterns: tuple[str, ...] | None = None
    excluded_tool_patterns: tuple[str, ...] | None = None
    endpoint: RemoteEndpoint | None = None
    delegates: tuple[str, ...] = ()
    background_tools: tuple[str, ...] = ()
    stop_conditions: tuple[StopConditionSpec, ...] = ()
    budget: Budget | None = None
    tool_executor: ToolExecutorKind = ToolExecutorKind.PARALLEL_STREAMING
    sections: dict[str, Any] = msgspec.field(default_factory=dict)
    registry: str | None = None

    def __post_init__(self) -> None:
        problem = self.budget.problem() if isinstance(self.budget, Budget) else None
        if problem is None and isinstance(self.settings, ModelSettings):
            problem = self.settings.problem()
        if problem is not None:
            raise ValueError(f"agent {self.id!r}: {problem}")

    @classmethod
    def read(cls, value: Json) -> AgentSpec:
        """A spec from JSON. Unknown keys are refused; the old key `active_plugins` and old
        endpoints are understood."""
        if isinstance(value, dict):
            value = dict(value)
            if "active_plugins" in value:
                value.setdefault("active_hook_filter", value.pop("active_plugins"))
            allowed = ("allowed_tools", "allowed_tool_patterns")
            if all(key in value and value[key] is None for key in allowed):
                value["allowed_tools"] = []  # both are null, which is not the same as both absent
            if value.get("endpoint") is not None:
                value["endpoint"] = msgspec.to_builtins(RemoteEndpoint.read(value["endpoint"]))
        return from_json(value, cls)

    @property
    def tool_selection(self) -> ToolSelection:
        return ToolSelection(
            allowed=self.allowed_tools,
            allowed_patterns=self.allowed_tool_patterns,
            excluded=self.excluded_tools or (),
            excluded_patterns=self.excluded_tool_patterns or (),
        )

    def config(self, section: str, type_: type[T]) -> T:
        """A section decoded as `type_`; `type_()` if the section is absent.

        Raises:
            KeyDecode: the section does not fit the type.
        """
        if section not in self.sections:
            return type_()
        try:
            return from_json(self.sections[section], type_)
        except (msgspec.ValidationError, ValueError) as error:
            raise KeyDecode(section, error) from error

    def with_section(self, name: str, value: Json) -> Self:
        return msgspec.structs.replace(self, sections={**self.sections, name: value})


class AgentOverlay(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to an agent's spec; a field that is `None` changes nothing.

    They apply while the agent has a conversation that another agent handed to it.

    Tools can only be removed: `allowed_tools` keeps only the tools it names, `excluded_tools`
    removes the tools it names. An overlay never adds a tool.
    """

    system_prompt: str | None = None
    model_id: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    excluded_tools: tuple[str, ...] | None = None

    @classmethod
    def read(cls, value: Json) -> AgentOverlay:
        """An overlay from JSON; unknown fields are refused."""
        return from_json(value, cls)

    @property
    def tool_selection(self) -> ToolSelection:
        """Which of its tools the agent keeps."""
        return ToolSelection(allowed=self.allowed_tools, excluded=self.excluded_tools or ())

    def on(self, spec: AgentSpec) -> AgentSpec:
        """The spec with these changes."""
        given = {
            field: value
            for field in self.__struct_fields__
            if (value := getattr(self, field)) is not None
        }
        if self.excluded_tools is not None:
            given["excluded_tools"] = (*(spec.excluded_tools or ()), *self.excluded_tools)
        return msgspec.structs.replace(spec, **given)


# -- stop conditions --------------------------------------------------------------------------


class MaxRounds(Value, frozen=True, kw_only=True, tag="max_rounds", tag_field="type"):
    """Stop after so many model calls."""

    rounds: int


class Timeout(Value, frozen=True, kw_only=True, tag="timeout", tag_field="type"):
    """Stop after so many seconds."""

    seconds: float


class TokenBudget(Value, frozen=True, kw_only=True, tag="token_budget", tag_field="type"):
    """Stop after so many tokens, input and output together."""

    max_total: int


class ConsecutiveErrors(
    Value, frozen=True, kw_only=True, tag="consecutive_errors", tag_field="type"
):
    """Stop after so many failed model calls in a row."""

    max: int


class StopOnTool(Value, frozen=True, kw_only=True, tag="stop_on_tool", tag_field="type"):
    """Stop when the model asks for this tool, before it runs."""

    tool_name: str


class ContentMatch(Value, frozen=True, kw_only=True, tag="content_match", tag_field="type"):
    """Stop when the answer matches a regular expression."""

    pattern: str


class LoopDetection(Value, frozen=True, kw_only=True, tag="loop_detection", tag_field="type"):
    """Stop when the last answers are all the same."""

    window: int


StopConditionSpec = (
    MaxRounds
    | Timeout
    | TokenBudget
    | ConsecutiveErrors
    | StopOnTool
    | ContentMatch
    | LoopDetection
)


# -- endpoints --------------------------------------------------------------------------------


# Only checks for a URL with a host, or a name in a module; the backend parses it.
_HTTP_URL = r"(?i:https?)://(?:[^/?#@\s]*@)?(?:\[[0-9a-fA-F:.]+\]|[^/?#@:\s\[\]]+)(?=[/:?#]|$)"
_PYTHON_NAME = r"python:[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*"
_USER = r"//[^/]*@"
_OLD_ENDPOINT_KEYS = frozenset({"bearer_token", "agent_id", "poll_interval_ms"})
_NEW_ENDPOINT_KEYS = frozenset({"backend", "auth", "target", "options"})


class RemoteEndpoint(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address of a remote agent.

    `base_url` is an http(s) URL or `python:module:name`, depending on the backend.
    """

    backend: str = msgspec.field(default_factory=lambda: "a2a")
    base_url: str
    auth: dict[str, Any] | None = None
    target: str | None = None
    timeout_ms: int = msgspec.field(default_factory=lambda: 300_000)
    options: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.backend.strip():
            raise ValueError("endpoint backend must not be blank")
        if not re.match(_HTTP_URL, self.base_url) and not re.fullmatch(_PYTHON_NAME, self.base_url):
            raise ValueError(
                f"endpoint base_url {self.address!r} is neither an http(s) URL nor "
                "python:module:name"
            )
        if "?" in self.base_url or "#" in self.base_url:
            raise ValueError(f"endpoint base_url {self.address!r} must not have query or fragment")
        if self.auth is None:
            return
        if not isinstance(self.auth.get("type"), str):
            raise ValueError("endpoint auth needs a type, such as bearer")
        if self.auth["type"] == "bearer":
            token = self.auth.get("token")
            if not isinstance(token, str) or not token.strip() or token.strip() == "***":
                raise ValueError("endpoint bearer auth needs a token")

    @property
    def address(self) -> str:
        """The `base_url` for logs and errors: without user name, password and query."""
        shown, *hidden = re.split(r"(?=[?#])", re.sub(_USER, "//***@", self.base_url), maxsplit=1)
        return f"{shown}{hidden[0][0]}***" if hidden else shown

    def __repr__(self) -> str:
        return f"RemoteEndpoint(backend={self.backend!r}, base_url={self.address!r})"

    @classmethod
    def read(cls, value: Json) -> RemoteEndpoint:
        """An endpoint from JSON; the old flat form is understood, a mix of both is refused."""
        if not isinstance(value, dict) or not _OLD_ENDPOINT_KEYS & value.keys():
            return from_json(value, cls)
        if mixed := sorted(_NEW_ENDPOINT_KEYS & value.keys()):
            raise ConfigError(
                f"endpoint mixes old keys with {', '.join(mixed)}: "
                "use backend, auth, target and options"
            )
        new = {key: item for key, item in value.items() if key not in _OLD_ENDPOINT_KEYS}
        if token := value.get("bearer_token"):
            new["auth"] = {"type": "bearer", "token": token}
        if agent := value.get("agent_id"):
            new["target"] = agent
        if value.get("poll_interval_ms") is not None:
            new["options"] = {"poll_interval_ms": value["poll_interval_ms"]}
        return from_json(new, cls)


# -- models and providers ---------------------------------------------------------------------


class Modalities(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kinds of content a model can read and write."""

    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


class ModelSpec(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider's model under an id, with its limits and prices, which are per million tokens."""

    id: str
    provider_id: str
    upstream_model: str
    context_window: int | None = None
    max_output_tokens: int | None = None
    modalities: Modalities | None = None
    knowledge_cutoff: str | None = None
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None

    def __post_init__(self) -> None:
        cutoff = self.knowledge_cutoff
        if cutoff is not None and not _is_month_or_day(cutoff):
            raise ValueError(f"knowledge_cutoff {cutoff!r} is not YYYY-MM or YYYY-MM-DD")


def _is_month_or_day(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}(-[0-9]{2})?", text):
        return False
    try:
        date.fromisoformat(text if len(text) == 10 else f"{text}-01")
    except ValueError:
        return False
    return True


class ProviderSpec(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach a provider. Secrets go into `api_key`, never into `adapter_options`."""

    id: str
    adapter: str
    api_key: RedactedString | None = None
    base_url: str | None = None
    timeout_secs: int = msgspec.field(default_factory=lambda: 300)
    adapter_options: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        # Forms and environment files give an absent value as empty text.
        if self.api_key == RedactedString(""):
            msgspec.structs.force_setattr(self, "api_key", None)
        elif self.api_key is not None:
            kept = SpecSecret(self.api_key.expose_secret())
            msgspec.structs.force_setattr(self, "api_key", kept)
        if self.base_url == "":
            msgspec.structs.force_setattr(self, "base_url", None)


# -- model pools ------------------------------------------------------------------------------


class PoolRole(StrEnum):
    """The role of a model; a `failover_only` model is called only if no other can be."""

    MEMBER = "member"
    FAILOVER_ONLY = "failover_only"


class PoolHome(StrEnum):
    """Which model a conversation starts with: chosen by its id, in turn, or the first healthy."""

    DETERMINISTIC = "deterministic"
    ROUND_ROBIN = "round_robin"
    FIRST_HEALTHY = "first_healthy"


class StickyScope(StrEnum):
    """Whether a thread or a run stays with one model as long as that works."""

    THREAD = "thread"
    RUN = "run"


class PoolMemberSpec(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of a pool; its weight is 1 by default."""

    model_id: str
    weight: float | None = None
    role: PoolRole = PoolRole.MEMBER


class PoolRouting(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model is called first."""

    home: PoolHome = PoolHome.DETERMINISTIC
    sticky_scope: StickyScope = StickyScope.THREAD


class PoolSwitch(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a pool switches models: on an open circuit, a used-up quota, or a permanent error.

    If a provider asks to retry within less than `quota_retry_after_threshold_secs`, the pool waits
    for it. A conversation switches models at most `max_switches_per_session` times in a row.
    """

    on_circuit_open: bool = True
    on_quota: bool = True
    on_permanent: bool = True
    quota_retry_after_threshold_secs: Annotated[int, Meta(ge=0)] | None = None
    max_switches_per_session: Annotated[int, Meta(ge=0)] | None = None


class ModelPoolSpec(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several models under one id."""

    id: str
    members: tuple[PoolMemberSpec, ...]
    routing: PoolRouting = msgspec.field(default_factory=PoolRouting)
    switch: PoolSwitch = msgspec.field(default_factory=PoolSwitch)

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise ValueError(f"model pool {self.id!r} {problem}")

    def _problem(self) -> str | None:
        ids = [member.model_id for member in self.members]
        if not ids:
            return "has no members"
        twice = sorted({id for id in ids if ids.count(id) > 1})
        if twice:
            return f"has a member twice: {', '.join(twice)}"
        for member in self.members:
            if member.weight is not None and not 0 < member.weight < float("inf"):
                return f"gives {member.model_id!r} the weight {member.weight}: it must be above 0"
        if all(member.role is PoolRole.FAILOVER_ONLY for member in self.members):
            return "has only failover_only members: at least one must be a plain member"
        return None
