"""What a run and all it starts may use up, and what that costs."""

from __future__ import annotations

from typing import Literal

import msgspec

from awaken.domain.value import Value

BUDGET_LIMIT = "budget:limit"
"""The action of a ticket that asks whether a run may use up more."""


class Price(Value, frozen=True, kw_only=True):
    """What a model costs, per million tokens, in whatever money the budgets count."""

    input: float
    output: float

    def __post_init__(self) -> None:
        if self.input < 0 or self.output < 0:
            raise ValueError("a price is 0 or more")

    def of(self, input_tokens: float, output_tokens: float) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


class Budget(Value, frozen=True, kw_only=True):
    """The most a run may use up, together with every run and task it starts; nothing is no limit.

    `seconds` counts while the run is carried on, not while it waits for somebody. `at_limit` says
    whether a run that may use up no more ends or asks somebody for more. `share` is the part of what is left that one delegate or task may take.
    """

    tokens: int | None = None
    money: float | None = None
    steps: int | None = None
    seconds: float | None = None
    at_limit: Literal["stop", "ask"] = "stop"
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.at_limit not in ("stop", "ask"):
            raise ValueError(f"a budget's at_limit is 'stop' or 'ask', not {self.at_limit!r}")
        for name in LIMITS:
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise ValueError(f"a budget's {name} is above 0, not {limit!r}")
        if not 0 < self.share <= 1:
            raise ValueError(f"a budget's share is above 0 and at most 1, not {self.share!r}")


LIMITS = ("tokens", "money", "steps", "seconds")


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

    def without_time(self) -> Amount:
        """The same but for time, which runs side by side pass together."""
        return msgspec.structs.replace(self, seconds=0.0)


class Spending(Value, frozen=True, kw_only=True):
    """What a run, and the delegates it is done with, have used up, and what it was granted.

    Grants are known by whose limit they raised: that of the run itself (0), or of the run so many
    levels above it.
    """

    spent: Amount = Amount()
    granted: dict[int, Amount] = msgspec.field(default_factory=dict)

    def __add__(self, other: Spending) -> Spending:
        granted = dict(self.granted)
        for level, more in other.granted.items():
            granted[level] = granted.get(level, Amount()) + more
        return Spending(spent=self.spent + other.spent, granted=granted)

    def as_parents(self) -> Spending:
        """The same, as part of what the run above has used up and was granted."""
        return Spending(
            spent=self.spent.without_time(),
            granted={level - 1: more for level, more in self.granted.items() if level > 0},
        )
