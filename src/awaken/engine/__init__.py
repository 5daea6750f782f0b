"""The agent loop: one run from its first phase to its last commit."""

from awaken.engine.loop_plugins import LoopActionHandlersPlugin, LoopStatePlugin, build_agent_env
from awaken.engine.run import run_agent_loop
from awaken.engine.suspension import prepare_resume

__all__ = [
    "LoopActionHandlersPlugin",
    "LoopStatePlugin",
    "build_agent_env",
    "prepare_resume",
    "run_agent_loop",
]
