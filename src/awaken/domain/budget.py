"""What a run and all it starts may use up, and what that costs."""

from __future__ import annotations

from enum import StrEnum

from awaken.domain.value import Value


class AtLimit(StrEnum):
    """What a run does that may use up no more: end, or ask somebody for more."""

    STOP = "stop"
    ASK = "ask"


class Price(Value, frozen=True, kw_only=True):
    """What a model costs, per million tokens, in whatever money the budgets count."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


class Budget(Value, frozen=True, kw_only=True):
    """The most a run may use up, together with every run and task it starts; nothing is no limit.

    `seconds` counts while the run is carried on, not while it waits for somebody. `share` is the
    part of what is left that one delegate or task may take.
    """

    tokens: int | None = None
    money: float | None = None
    steps: int | None = None
    seconds: float | None = None
    at_limit: AtLimit = AtLimit.STOP
    share: float = 1.0

    def __post_init__(self) -> None:
        for name in ("tokens", "money", "steps", "seconds"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise ValueError(f"a budget's {name} is above 0, not {limit!r}")
        if not 0 < self.share <= 1:
            raise ValueError(f"a budget's share is above 0 and at most 1, not {self.share!r}")


class Amount(Value, frozen=True, kw_only=True):
    """So much of each."""

    tokens: int = 0
    money: float = 0.0
    steps: int = 0
    seconds: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            tokens=self.tokens + other.tokens,
            money=self.money + other.money,
            steps=self.steps + other.steps,
            seconds=self.seconds + other.seconds,
        )

    def __sub__(self, other: Amount) -> Amount:
        return Amount(
            tokens=self.tokens - other.tokens,
            money=self.money - other.money,
            steps=self.steps - other.steps,
            seconds=self.seconds - other.seconds,
        )


class Spending(Value, frozen=True, kw_only=True):
    """What a run, and the delegates it is done with, have used up; and what it was granted."""

    spent: Amount = Amount()
    granted: Amount = Amount()

    def __add__(self, other: Spending) -> Spending:
        return Spending(spent=self.spent + other.spent, granted=self.granted + other.granted)
