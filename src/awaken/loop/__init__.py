"""The agent loop: one run from its first phase to its last commit."""

from awaken.loop.plugins import LoopActionHandlersPlugin, LoopStatePlugin, build_agent_env
from awaken.loop.resume import prepare_resume
from awaken.loop.run import run_agent_loop

__all__ = [
    "LoopActionHandlersPlugin",
    "LoopStatePlugin",
    "build_agent_env",
    "prepare_resume",
    "run_agent_loop",
]
