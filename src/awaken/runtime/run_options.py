"""The options of a run, once for type checkers, `help()`, the reference and errors.

`run`, `stream` and `submit` take them by name; `run_arguments` checks their values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from typing import TypedDict

    from awaken.codec import Json
    from awaken.core.budget import Budget
    from awaken.core.identity import Adapter, Principal
    from awaken.core.inference import ModelSettings
    from awaken.core.store.commands import SubmitMode
    from awaken.core.tool import ToolDescriptor
    from awaken.runtime.run_arguments import AnswersByTicket, OnApproval
    from awaken.worker.request import WhenBusy
else:

    class TypedDict:
        """At run time a plain class: `typing.TypedDict` compiles each annotation at import."""

        def __init_subclass__(cls, total: bool) -> None:
            """Takes the argument of a `TypedDict`."""


class RequestOptions(TypedDict, total=False):
    """The options of every run, started at once or submitted; see `Runtime.run`."""

    thread: str | None
    answers: AnswersByTicket | None
    settings: ModelSettings | None
    budget: Budget | None
    frontend_tools: Sequence[ToolDescriptor]
    user: str | None
    labels: Mapping[str, str] | None
    principal: Principal | None
    rewind_to: str | None
    deps_key: Json


class RunOptions(RequestOptions, total=False):
    """The options of `Runtime.run` and `Agent.run`."""

    on_approval: OnApproval | None
    when_busy: WhenBusy | Literal["refuse", "queue"]


class StreamOptions(RunOptions, total=False):
    """The options of `Runtime.stream`."""

    wait: bool
    detached: bool


class SubmitOptions(RequestOptions, total=False):
    """The options of `Runtime.submit`."""

    mode: SubmitMode | Literal["queue", "steer", "interrupt", "refuse"]
    key: str | None
    not_before_ms: int | None
    state: Mapping[str, Json] | None
    forwarded_props: Json
    adapter: Adapter
    request_id: str | None


_DEFAULTS: dict[str, object] = {
    "frontend_tools": (),
    "when_busy": "refuse",
    "wait": False,
    "detached": False,
    "mode": "queue",
    "adapter": "internal",
}
"""The defaults that are not `None`, as a program would write them."""
Method = TypeVar("Method", bound=Callable[..., Any])


def takes(options: type) -> Callable[[Method], Method]:
    """A decorator for a method that takes `**options`: its signature lists them one by one."""
    added = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=type_
        )
        for kind in reversed(options.__mro__)
        for name, type_ in inspect.get_annotations(kind).items()
    ]

    def list_options(method: Method) -> Method:
        signature = inspect.signature(method)
        given = list(signature.parameters.values())[:-1]  # without `options`
        by_place = [one for one in given if one.kind is one.POSITIONAL_OR_KEYWORD]
        shown: Any = method
        shown.__signature__ = signature.replace(
            parameters=[*by_place, *added, *given[len(by_place) :]]
        )
        return method

    return list_options
