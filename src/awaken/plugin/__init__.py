"""The API of plugins: they add hooks, gates, handlers, transforms, tools, services and state keys.

What every plugin uses (`Plugin`, `Registrar`, `PhaseContext`, `Command`) is in `awaken`; here are
the names that fewer plugins need. The built-in plugins are in `awaken.ext`.
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
from awaken.lazy import lazy_names
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

lazy_names(__name__, {})  # an error about a name of another module says which
