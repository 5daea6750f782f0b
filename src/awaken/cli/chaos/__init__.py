"""`awaken chaos`: the user's own agent, killed again and again."""

from awaken.cli.chaos.command import chaos

__all__ = ["chaos"]
