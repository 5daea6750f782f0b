"""The state key for fitting a thread into a model's context window."""

from __future__ import annotations

from awaken.core.state.key import BuiltInKey, Scope, StateKey
from awaken.core.value import Value
from awaken.core.window import Cut


class ContextWindowState(Value, frozen=True, kw_only=True):
    """Where the conversation was cut, and how far our token estimates are off.

    `factor` is the model's own token count divided by our estimate. The value changes when more
    messages have to be left out, or when an answer's usage corrects the factor.
    """

    cut: Cut = Cut()
    factor: float = 1.0


CONTEXT_WINDOW: StateKey[ContextWindowState, ContextWindowState] = BuiltInKey(
    "__context_window", initial=ContextWindowState, scope=Scope.THREAD
)
