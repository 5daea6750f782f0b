"""`awaken demo`: a small shop, two agents, and a process that is killed in the middle."""

from awaken.cli.demo.command import demo

__all__ = ["demo"]
