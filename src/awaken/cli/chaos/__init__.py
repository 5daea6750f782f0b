"""`awaken chaos`: killing a user's agent again and again, to see what it survives."""

from awaken.cli.chaos.command import chaos

__all__ = ["chaos"]
