"""The context that a hook gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from awaken.codec import Json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.deps import RunDeps, value_of
from awaken.core.identity import Adapter, RunIdentity, RunMode
from awaken.core.inference import LLMResponse
from awaken.core.intercept import ToolPolicyContext
from awaken.core.lifecycle import Phase
from awaken.core.message import Message
from awaken.core.profile import ProfileAccess
from awaken.core.spec import AgentSpec
from awaken.core.state.key import StateKey
from awaken.core.state.snapshot import Snapshot
from awaken.core.suspension import ToolCallResume
from awaken.core.tool import ToolDescriptor, ToolKind, ToolResult

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    D = TypeVar("D", default=Any)
else:
    from typing import TypeVar

    D = TypeVar("D")

T = TypeVar("T")


class PhaseContext(msgspec.Struct, Generic[D], frozen=True, kw_only=True):
    """The run at one phase. A hook reads it and returns a `Command`.

    `messages` is a view of the conversation so far. The tool fields are set in the three tool
    phases, `tool_result` after a tool and `llm_response` after an inference. `resume_input` and
    the suspension fields are set while a suspended call is resumed. `deps` are the dependencies of
    the run; write `PhaseContext[Deps]` to have them typed.
    """

    phase: Phase
    snapshot: Snapshot
    agent_spec: AgentSpec
    run_identity: RunIdentity
    messages: Sequence[Message] = ()
    tool_name: str | None = None
    tool_call_id: str | None = None
    tool_args: Json = None
    tool_kind: ToolKind | None = None
    tool_result: ToolResult | None = None
    llm_response: LLMResponse | None = None
    offered_tools: Sequence[ToolDescriptor] = ()
    resume_input: ToolCallResume | None = None
    suspension_id: str | None = None
    suspension_reason: str | None = None
    cancellation_token: CancellationToken | None = None
    profile_access: ProfileAccess | None = None
    run_deps: RunDeps | None = None

    @property
    def deps(self) -> D:
        """The dependencies that the run was given.

        Raises:
            ConfigError: the agent has none.
        """
        value: D = value_of(self.run_deps, self.agent_spec.id)
        return value

    def read(self, key: StateKey[T, Any]) -> T | None:
        """The value of `key`, or `None` if it was never written."""
        return self.snapshot.get(key)

    def config(self, section: str, type_: type[T]) -> T:
        """A section of the agent's spec, decoded as `type_`."""
        return self.agent_spec.config(section, type_)

    @property
    def effective_tool_ids(self) -> tuple[str, ...]:
        """The ids of the tools that the model was offered."""
        return tuple([tool.id for tool in self.offered_tools])

    @property
    def run_mode(self) -> RunMode:
        return self.run_identity.run_mode

    @property
    def adapter(self) -> Adapter:
        return self.run_identity.adapter

    def at(self, snapshot: Snapshot) -> PhaseContext[D]:
        """The same context with another snapshot."""
        return msgspec.structs.replace(self, snapshot=snapshot)

    def policy_context(self) -> ToolPolicyContext:
        """The tool call as a policy hook sees it."""
        return ToolPolicyContext(
            thread_id=self.run_identity.thread_id,
            run_id=self.run_identity.run_id,
            dispatch_id=self.run_identity.dispatch_id_opt(),
            run_mode=self.run_identity.run_mode,
            adapter=self.run_identity.adapter,
            tool_name=self.tool_name or "",
            tool_kind=self.tool_kind or ToolKind.guess(self.tool_name or ""),
            arguments=self.tool_args,
        )
