"""What is kept of how a thread is shown to a model."""

from __future__ import annotations

from awaken.domain.value import Value
from awaken.domain.window import Cut
from awaken.state.key import Scope, StateKey


class ContextWindowState(Value, frozen=True, kw_only=True):
    """Where the conversation was cut, and how many tokens the model counts where we guess one.

    It changes when something has to be left out, or when our guesses turn out to be wrong.
    """

    cut: Cut = Cut()
    factor: float = 1.0


CONTEXT_WINDOW: StateKey[ContextWindowState, ContextWindowState] = StateKey(
    "__context_window", initial=ContextWindowState, scope=Scope.THREAD
)
