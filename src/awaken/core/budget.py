"""Budgets, prices and spending, as values. Accounts that apply them are in `core.account`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from awaken.core.inference import TokenUsage
from awaken.core.value import Value
from awaken.errors import BudgetExhausted

BUDGET_LIMIT = "budget:limit"
"""The action of a ticket that asks an approver for more budget."""


def question_of(error: BudgetExhausted) -> dict[str, Any]:
    """The parameters of the question to an approver."""
    return {
        "limit": error.name,
        "amount": error.limit,
        "left": error.left,
        "wanted": error.wanted,
        "level": error.level,
    }


class Price(Value, frozen=True, kw_only=True):
    """The price of a model per million tokens, in the currency of the budgets.

    Tokens read from a provider's cache, or written to it, cost the same as others by default.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for price in (self.input, self.output, self.cache_read, self.cache_write):
            if price is not None and not 0 <= price <= sys.float_info.max:
                raise ValueError(f"a price is 0 or more, not {price!r}")

    @classmethod
    def highest(cls, prices: Collection[Price]) -> Price | None:
        """The highest of several prices, or `None` if there is none."""
        if len(prices) < 2:
            return next(iter(prices), None)
        return cls(
            input=max(max(price.input, price.cache_write or 0) for price in prices),
            output=max(price.output for price in prices),
        )

    def of_usage(self, usage: TokenUsage) -> float:
        """The cost of an answer; `prompt_tokens` include those read from a cache."""
        read, written = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
        cached = 0.0
        if self.cache_read is not None:
            cached += read * (self.cache_read - self.input)
        if self.cache_write is not None:
            cached += written * (self.cache_write - self.input)
        whole = self.of(max(0, usage.prompt_tokens or 0), max(0, usage.completion_tokens or 0))
        return max(0.0, whole + cached / 1_000_000)

    def of(self, input_tokens: float, output_tokens: float) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


class Budget(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a run, together with all runs and tasks it starts; `None` means no limit.

    `steps` counts model calls. `seconds` counts while the run is running, not while it waits. At a
    limit the run ends, or asks an approver for more, as `at_limit` says. `share` is the part of
    the remaining budget that one delegate or task may use.
    """

    tokens: int | None = None
    money: float | None = None
    steps: int | None = None
    seconds: float | None = None
    at_limit: Literal["stop", "ask"] = "stop"
    share: float = 1.0

    def problem(self) -> str | None:
        """The error text if the limits are invalid, or `None`."""
        for name in LIMITS:
            limit: Any = getattr(self, name)
            kind, words = _KINDS[name]
            if limit is None:
                continue
            if isinstance(limit, bool) or not isinstance(limit, kind):
                return f"a budget's {name} is {words}, not {limit!r}"
            if not 0 < limit <= sys.float_info.max:
                return f"a budget's {name} is above 0, or left out for no limit, not {limit!r}"
        if self.at_limit not in ("stop", "ask"):
            return f"a budget's at_limit is 'stop' or 'ask', not {self.at_limit!r}"
        if isinstance(self.share, bool) or not isinstance(self.share, int | float):
            return f"a budget's share is a number, not {self.share!r}"
        if not 0 < self.share <= 1:
            return f"a budget's share is above 0 and at most 1, not {self.share!r}"
        return None


LIMITS = ("tokens", "money", "steps", "seconds")
_WHOLE, _ANY = (int, "a whole number"), ((int, float), "a number")
_KINDS: dict[str, tuple[Any, str]] = {
    "tokens": _WHOLE,
    "money": _ANY,
    "steps": _WHOLE,
    "seconds": _ANY,
}


class Amount(Value, frozen=True, kw_only=True):
    """An amount of tokens, money, steps and seconds."""

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

    def beyond(self, other: Amount) -> Amount:
        """How much this is above the other amount, never below 0."""
        return Amount(
            tokens=max(0, self.tokens - other.tokens),
            money=max(0.0, self.money - other.money),
            steps=max(0, self.steps - other.steps),
            seconds=max(0.0, self.seconds - other.seconds),
        )

    def without_time(self) -> Amount:
        """The amount with 0 seconds: the time of a child is part of its parent's time."""
        return msgspec.structs.replace(self, seconds=0.0)


class Spending(Value, frozen=True, kw_only=True):
    """The spending of a run and its finished delegates, and the budget granted to the run.

    `granted[0]` raised the limit of the run itself, `granted[1]` that of its parent run, and so on.
    """

    spent: Amount = Amount()
    granted: tuple[Amount, ...] = ()

    @classmethod
    def grant(cls, more: Amount, level: int) -> Spending:
        """A grant to the run `level` levels above, with nothing spent."""
        return cls(granted=(*[Amount()] * level, more))

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            spent=self.spent + other.spent,
            granted=tuple(a + b for a, b in self._levels(other)),
        )

    def beyond(self, counted: Spending) -> Spending:
        """The part of this that `counted` does not include."""
        return Spending(
            spent=self.spent.beyond(counted.spent),
            granted=tuple(a.beyond(b) for a, b in self._levels(counted)),
        )

    def as_parents(self) -> Spending:
        """This spending as the parent run counts it: without time, the parent's grants first."""
        return Spending(spent=self.spent.without_time(), granted=self.granted[1:])

    def _levels(self, other: Spending) -> Iterator[tuple[Amount, Amount]]:
        return zip_longest(self.granted, other.granted, fillvalue=Amount())
