"""The circuit breaker: a failing model is not asked for a while."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.llm import InferenceCancelled, InferenceExecutionError, ProviderError
from awaken.models.wrapper import error_line

log = logging.getLogger("awaken.llm")


class CircuitOpen(ProviderError):
    """The model failed too often and is not asked at present; retrying at once cannot help.

    `reason` is the text of its last error, and `open_for` the seconds until it is asked again.
    """

    retryable = False

    def __init__(self, model: str, reason: str, open_for: float) -> None:
        super().__init__(
            f"circuit breaker open for model {model}: it is asked again in {open_for:.0f} s; "
            f"it failed too often, the last time with: {reason}"
        )
        self.model, self.reason, self.open_for = model, reason, open_for


class _Circuit:
    """The circuit of one model: open until `retry_at`, or closed if that is `None`. `reason` is the
    text of the last error that counted.

    `admission` is replaced at every change of state, so that the end of a call that was admitted
    before the change is ignored.
    """

    __slots__ = ("admission", "failures", "model", "reason", "retry_at")

    def __init__(self, breaker: CircuitBreaker, model: str) -> None:
        self.model, self.reason = model, ""
        self.admission = Admission(breaker, self)
        self.failures = 0
        self.retry_at: float | None = None


class CircuitBreaker:
    """Refuses calls to a model after `threshold` failures in a row; models are counted separately.

    After `cooldown` seconds one call is admitted as a probe. Meanwhile the circuit stays open for
    another cooldown, so a probe that never ends does not block the model for ever.
    """

    def __init__(
        self, *, threshold: int = 5, cooldown: float = 30.0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._threshold = threshold
        self._cooldown = cooldown
        self._clock = clock
        self._circuits: dict[str, _Circuit] = {}

    def is_available(self, model: str) -> bool:
        """Whether a call would be admitted now. Asking does not use up the probe."""
        return self.refusal(model) is None

    def refusal(self, model: str) -> CircuitOpen | None:
        """The error that a call would get now; `None` if it would be admitted."""
        circuit = self._circuits.get(model)
        return None if circuit is None else self._refusal(circuit)

    def _refusal(self, circuit: _Circuit) -> CircuitOpen | None:
        if circuit.retry_at is None:
            return None
        open_for = circuit.retry_at - self._clock.monotonic()
        return CircuitOpen(circuit.model, circuit.reason, open_for) if open_for > 0 else None

    def call(self, model: str) -> Admission:
        """Admit a call. The caller wraps the whole call, to the end of its stream, in the returned
        context manager.

        Raises:
            CircuitOpen: the model is not asked at present.
        """
        circuit = self._circuits.get(model)
        if circuit is None:
            circuit = self._circuits[model] = _Circuit(self, model)
        if circuit.retry_at is not None:
            refused = self._refusal(circuit)
            if refused is not None:
                raise refused
            self._open(circuit)
        return circuit.admission

    def _record_outcome(self, circuit: _Circuit, error: BaseException | None) -> None:
        """Update the circuit after a call has ended."""
        probing = circuit.retry_at is not None
        if isinstance(error, InferenceExecutionError) and error.retryable:
            circuit.failures += 1
            circuit.reason = str(error)
            if probing or circuit.failures >= self._threshold:
                self._open(circuit)
                log.warning(
                    "circuit of model %s %s: it failed %d times in a row, the last time with: %s; "
                    "it is asked again in %.0f s",
                    circuit.model,
                    "stays open" if probing else "opened",
                    circuit.failures,
                    error_line(error),
                    self._cooldown,
                )
        elif error is None or (probing and _is_answer(error)):
            self._close(circuit)
        elif probing:
            self._open(circuit)

    def _open(self, circuit: _Circuit) -> None:
        circuit.admission = Admission(self, circuit)
        circuit.retry_at = self._clock.monotonic() + self._cooldown

    def _close(self, circuit: _Circuit) -> None:
        circuit.failures = 0
        if circuit.retry_at is not None:
            circuit.admission = Admission(self, circuit)
            circuit.retry_at = None
            log.info("circuit of model %s closed: the model answers again", circuit.model)


def _is_answer(error: BaseException) -> bool:
    """Whether the error shows that the provider works: it understood the request and refused it."""
    return isinstance(error, InferenceExecutionError) and not isinstance(error, InferenceCancelled)


class Admission:
    """Wraps calls admitted in one state of a circuit; leaving the block reports how a call
    ended."""

    __slots__ = ("_breaker", "_circuit")

    def __init__(self, breaker: CircuitBreaker, circuit: _Circuit) -> None:
        self._breaker, self._circuit = breaker, circuit

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        circuit = self._circuit
        is_news = error is not None or circuit.failures > 0 or circuit.retry_at is not None
        if is_news and circuit.admission is self:
            self._breaker._record_outcome(circuit, error)
