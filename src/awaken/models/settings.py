"""Settings that not every model obeys.

A setting that changes what an answer means is refused by a model that cannot obey it; any other is
dropped, with one warning.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from awaken.core.inference import InferenceOverride
from awaken.core.llm import InferenceRequest, InvalidRequest

log = logging.getLogger("awaken.llm")


def warn_dropped(request: InferenceRequest, *names: str) -> None:
    """Warn, once for each model, about settings among `names` that are set and not sent."""
    for name in names:
        if getattr(request.overrides, name, None) is not None:
            _warn(request.upstream_model, name)


@lru_cache(maxsize=1024)
def _warn(model: str, name: str) -> None:
    log.warning("model %s has no setting %s: it is not sent", model, name)


def refuse_settings(request: InferenceRequest, *names: str) -> None:
    """
    Raises:
        InvalidRequest: a setting among `names` is set, which the model cannot obey.
    """
    for name in names:
        if getattr(request.overrides, name, None) is not None:
            raise InvalidRequest(
                f"model {request.upstream_model!r} cannot obey {name}: leave it out of the settings"
            )


def drop_unsupported(
    request: InferenceRequest, dropped: Sequence[str], refused: Sequence[str] = ()
) -> InferenceRequest:
    """Drop settings that the model ignores, with a warning; refuse those that it cannot obey.

    Raises:
        InvalidRequest: a setting is set that would change the meaning and cannot be obeyed.
    """
    overrides = request.overrides
    if overrides is None or not (dropped or refused):
        return request
    choice = tool_choice_of(request)
    refuse_settings(request, *(name for name in refused if name not in _ALLOWED))
    if any(choice not in _ALLOWED[name] for name in refused if name in _ALLOWED):
        refuse_settings(request, "tool_choice")
    warn_dropped(request, *dropped)
    kept = msgspec.structs.replace(overrides, **dict.fromkeys(dropped))
    return msgspec.structs.replace(request, overrides=kept)


_ALLOWED: dict[str, tuple[str | None, ...]] = {
    "tool_choice": (None,),
    "forced_tool_choice": (None, "none"),
}
"""The choices of `tool_choice_of` that are not refused, by the name of the refused setting."""


@lru_cache(maxsize=1024)
def warn_nearest(model: str, name: str, wanted: str, sent: str) -> None:
    """Warn once that a setting is sent with another value, the nearest that the model has."""
    log.warning("model %s has no %s %r: %r is sent", model, name, wanted, sent)


def tool_choice_of(request: InferenceRequest) -> str | None:
    """The `tool_choice`; `None` if the model may choose, or has no tools to choose from.

    Raises:
        InvalidRequest: a tool has to be called that is not offered.
    """
    choice = request.overrides.tool_choice if request.overrides is not None else None
    if choice in (None, "auto") or (choice == "none" and not request.tools):
        return None
    known = [tool.id for tool in request.tools]
    if choice not in ("none", "required") and choice not in known:
        offered = ", ".join(map(repr, known)) or "none"
        raise InvalidRequest(
            f"tool_choice is {choice!r}, and no such tool is offered: offered are {offered}"
        )
    if choice == "required" and not known:
        raise InvalidRequest("tool_choice is 'required', and no tool is offered")
    return choice


def extra_fields(overrides: InferenceOverride | None) -> dict[str, Any]:
    """The further fields of a provider's request."""
    return dict(overrides.extra or {}) if overrides is not None else {}


_JOINED = ("tools", "include")


def add_extra_fields(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """A request with further fields, which replace its own; tools are added to its own."""
    joined = {
        name: [*body[name], *extra[name]] for name in _JOINED if name in body and name in extra
    }
    return {**body, **extra, **joined}
