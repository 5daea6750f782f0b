"""Budgets, prices and parameters of a run, as users give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awaken.core.budget import Budget, Price
from awaken.core.inference import InferenceOverride, ModelSettings
from awaken.errors import ConfigError


def checked_budget(budget: Budget | None, whose: str) -> Budget | None:
    """
    Raises:
        ConfigError: it is not a budget, or its limits make no sense.
    """
    given: Any = budget
    if given is None:
        return None
    if not isinstance(given, Budget):
        raise ConfigError(
            f"{whose}: budget is a Budget, such as Budget(tokens=10_000), not {given!r}"
        )
    if (problem := given.problem()) is not None:
        raise ConfigError(f"{whose}: {problem}")
    return given


def checked_settings(settings: ModelSettings | None, whose: str) -> ModelSettings | None:
    """
    Raises:
        ConfigError: they are not settings, or one of them makes no sense.
    """
    given: Any = settings
    if given is None:
        return None
    if not isinstance(given, ModelSettings) or isinstance(given, InferenceOverride):
        raise ConfigError(
            f"{whose}: settings are ModelSettings, such as ModelSettings(temperature=0.2), not "
            f"{given!r}"
        )
    if (problem := given.problem()) is not None:
        raise ConfigError(f"{whose}: {problem}")
    return given


def checked_overrides(overrides: ModelSettings | None, whose: str) -> InferenceOverride | None:
    """
    Raises:
        ConfigError: they are not overrides, or one of them makes no sense.
    """
    given: Any = overrides
    if given is None:
        return None
    if not isinstance(given, ModelSettings):
        raise ConfigError(
            f"{whose}: overrides are ModelSettings, such as ModelSettings(temperature=0.2), not "
            f"{given!r}"
        )
    if (problem := given.problem()) is not None:
        raise ConfigError(f"{whose}: {problem}")
    if isinstance(given, InferenceOverride):
        return given
    return InferenceOverride().merge(given)


def checked_prices(prices: Mapping[str, Price]) -> dict[str, Price]:
    """
    Raises:
        ConfigError: one of them is not a price.
    """
    for model, price in prices.items():
        given: Any = price
        if not isinstance(given, Price):
            raise ConfigError(
                f"the price of model {model!r} is a Price, such as Price(input=1, output=4) per "
                f"million tokens, not {given!r}"
            )
    return dict(prices)
