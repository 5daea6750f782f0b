"""Plugins: they add hooks, gates, handlers, transforms, tools, services and state keys.

The names that every plugin uses (`Plugin`, `Registrar`, `PhaseContext`, `Command`) are in `awaken`;
here are the names that fewer plugins need.
"""

from awaken.core.intercept import (
    Allow,
    AuditOnly,
    Deny,
    ReplaceResult,
    ToolInterceptPayload,
    ToolPolicyContext,
    ToolPolicyDecision,
)
from awaken.core.profile import ProfileAccess
from awaken.core.state.command import (
    ADD_CONTEXT_MESSAGE,
    EXCLUDE_TOOL,
    INCLUDE_ONLY_TOOLS,
    SET_INFERENCE_OVERRIDE,
    EffectSpec,
    ScheduledActionSpec,
)
from awaken.core.state.run_keys import ACTIVE_AGENT
from awaken.plugin.hook import (
    ActionHandler,
    BindsRuntimeContext,
    ConfigSchema,
    Configured,
    EffectHandler,
    HookGuard,
    PhaseHook,
    RequestTransform,
    RunScoped,
    SupportsActivation,
    SupportsClose,
    ToolGateHook,
    ToolPolicyHook,
)

__all__ = [
    "ACTIVE_AGENT",
    "ADD_CONTEXT_MESSAGE",
    "EXCLUDE_TOOL",
    "INCLUDE_ONLY_TOOLS",
    "SET_INFERENCE_OVERRIDE",
    "ActionHandler",
    "Allow",
    "AuditOnly",
    "BindsRuntimeContext",
    "ConfigSchema",
    "Configured",
    "Deny",
    "EffectHandler",
    "EffectSpec",
    "HookGuard",
    "PhaseHook",
    "ProfileAccess",
    "ReplaceResult",
    "RequestTransform",
    "RunScoped",
    "ScheduledActionSpec",
    "SupportsActivation",
    "SupportsClose",
    "ToolGateHook",
    "ToolInterceptPayload",
    "ToolPolicyContext",
    "ToolPolicyDecision",
    "ToolPolicyHook",
]
