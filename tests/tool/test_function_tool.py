from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest
from tool_context import make_context, run_tool

from awaken.core.state.command import Command
from awaken.core.tool import ToolError, ToolErrorKind, ToolKind, ToolResult, ToolStatus
from awaken.core.tool_context import ToolCallContext, ToolOutput, ToolTraits
from awaken.errors import ConfigError
from awaken.tool import FunctionTool, tool

if TYPE_CHECKING:
    from fractions import Fraction

pytestmark = pytest.mark.anyio


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


@dataclasses.dataclass
class Place:
    city: str
    zip_code: str | None = None


class Options(TypedDict, total=False):
    verbose: bool


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Trip(msgspec.Struct):
    start: Place
    points: list[Point] = []


@tool
async def weather(city: str, days: int = 3) -> str:
    """The weather of a city."""
    return f"{city}: {days} days of sun"


# -- decorating -------------------------------------------------------------------------------


async def test_a_bare_decorator_takes_name_and_description_from_the_function() -> None:
    described = weather.descriptor()
    assert (described.id, described.name) == ("weather", "weather")
    assert described.description == "The weather of a city."
    assert described.parameters == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
        "required": ["city"],
        "additionalProperties": False,
    }
    assert weather.traits == ToolTraits()
    assert weather.needs_approval is False


async def test_a_decorator_with_options_says_them_all() -> None:
    @tool(
        name="get_weather",
        description="Weather.",
        id="w1",
        category="outdoors",
        kind=ToolKind.READ,
        sequential=True,
        timeout=2.5,
    )
    def anything(city: str) -> str:
        """Not this."""
        return city

    described = anything.descriptor()
    assert (described.id, described.name, described.description) == (
        "w1",
        "get_weather",
        "Weather.",
    )
    assert (described.category, described.kind) == ("outdoors", ToolKind.READ)
    assert anything.traits == ToolTraits(sequential=True, timeout=2.5, stoppable=False)


async def test_the_function_stays_callable() -> None:
    assert await weather("Rome", days=1) == "Rome: 1 days of sun"
    assert str(inspect.signature(weather)) == "(city: 'str', days: 'int' = 3) -> 'str'"
    assert weather.__doc__ == "The weather of a city."
    assert repr(weather) == "FunctionTool('weather')"


async def test_tool_is_also_a_plain_call() -> None:
    def double(n: int) -> int:
        return n * 2

    assert (await run_tool(tool(double), {"n": 2})).result.data == 4
    assert tool(double, name="twice").descriptor().name == "twice"


async def test_bound_methods_are_tools() -> None:
    class Counter:
        def __init__(self) -> None:
            self.total = 0

        def add(self, n: int) -> int:
            """Add to the total."""
            self.total += n
            return self.total

    counter = Counter()
    add = tool(counter.add)
    assert add.descriptor().description == "Add to the total."
    assert (await run_tool(add, {"n": 2})).result.data == 2
    assert counter.total == 2


async def test_a_partial_hides_what_it_bound() -> None:
    async def fetch(url: str, token: str, retries: int = 1) -> list[Any]:
        """Fetch a page."""
        return [url, token, retries]

    fetch_tool = tool(functools.partial(fetch, token="secret"))
    described = fetch_tool.descriptor()
    assert (described.name, described.description) == ("fetch", "Fetch a page.")
    assert list(described.parameters["properties"]) == ["url", "retries"]
    assert (await run_tool(fetch_tool, {"url": "u"})).result.data == ["u", "secret", 1]
    stolen = await run_tool(fetch_tool, {"url": "u", "token": "other"})
    assert stolen.result.status is ToolStatus.ERROR


async def test_wrapped_functions_are_tools() -> None:
    @functools.cache
    def square(n: int) -> int:
        return n * n

    def logged(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return wrapper

    assert (await run_tool(tool(square), {"n": 3})).result.data == 9
    assert (await run_tool(tool(logged(weather)), {"city": "X"})).result.data == "X: 3 days of sun"


async def test_a_function_without_parameters_takes_nothing() -> None:
    @tool
    def ping() -> str:
        return "pong"

    assert ping.descriptor().parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    assert (await run_tool(ping, None)).result.data == "pong"


# -- parameters -------------------------------------------------------------------------------


async def test_structured_parameters_arrive_as_their_types() -> None:
    @tool
    def plan(
        trip: Trip,
        unit: Unit,
        mode: Literal["car", "train"],
        options: Options,
        limits: dict[str, int],
        pair: tuple[int, str],
        when: datetime.date,
        price: decimal.Decimal,
        tags: set[str],
        note: str | None = None,
    ) -> str:
        assert trip == Trip(Place("Rome"), [Point(1.0, 2.0)])
        assert unit is Unit.CELSIUS
        assert (mode, options, limits) == ("car", {"verbose": True}, {"a": 1})
        assert (pair, when) == ((1, "x"), datetime.date(2024, 1, 2))
        assert (price, tags, note) == (decimal.Decimal("1.5"), {"t"}, None)
        return "fine"

    args = {
        "trip": {"start": {"city": "Rome"}, "points": [[1, 2]]},
        "unit": "c",
        "mode": "car",
        "options": {"verbose": True},
        "limits": {"a": 1},
        "pair": [1, "x"],
        "when": "2024-01-02",
        "price": "1.5",
        "tags": ["t"],
        "note": None,
    }
    result = (await run_tool(plan, args)).result
    assert result.message == "fine"


async def test_an_optional_parameter_is_shown_plainly_and_accepts_null() -> None:
    @tool
    def f(a: int | None, b: Place | None = None) -> Any:
        return [a, b]

    shown = f.descriptor().parameters
    assert shown["properties"]["a"] == {"type": "integer"}
    assert "anyOf" not in shown["properties"]["b"]
    assert shown["required"] == ["a"]
    assert (await run_tool(f, {"a": None, "b": None})).result.data == [None, None]


async def test_limits_of_meta_are_shown_and_enforced() -> None:
    @tool
    def f(n: Annotated[int, msgspec.Meta(ge=1, description="how many")]) -> int:
        """Do.

        Args:
            n: not this text.
        """
        return n

    assert f.descriptor().parameters["properties"]["n"] == {
        "type": "integer",
        "minimum": 1,
        "description": "how many",
    }
    assert (
        await run_tool(f, {"n": 0})
    ).result.message == "Invalid arguments: n: expected `int` >= 1"


async def test_a_parameters_text_wins_over_its_types_docstring() -> None:
    class Target(msgspec.Struct):
        """What the type says."""

        x: int

    def f(target: Any) -> str:
        """Do.

        :param target: what the function says
        """
        return str(target)

    f.__annotations__["target"] = Target
    shown = tool(f).descriptor().parameters["properties"]["target"]
    assert shown["description"] == "what the function says"


async def test_any_object_may_be_a_default() -> None:
    marker = object()

    @tool
    def f(
        a: str | None = marker,  # type: ignore[assignment]
        b: list[int] = [1, 2],  # noqa: B006
        c: Place = Place("Rome"),  # noqa: B008
        d: Unit = Unit.CELSIUS,
    ) -> Any:
        return [a is marker, b, c, d]

    assert (await run_tool(f, {})).result.data == [
        True,
        [1, 2],
        {"city": "Rome", "zip_code": None},
        "c",
    ]
    properties = f.descriptor().parameters["properties"]
    assert "default" not in properties["a"]
    assert properties["b"]["default"] == [1, 2]
    assert properties["c"]["default"] == {"city": "Rome", "zip_code": None}
    assert properties["d"]["default"] == "c"


async def test_a_tool_may_change_its_arguments_without_changing_the_call() -> None:
    @tool
    def f(data: dict[str, Any], anything: Any) -> None:
        data["inner"].append(2)
        anything.clear()

    args = {"data": {"inner": [1]}, "anything": [1]}
    await run_tool(f, args)
    assert args == {"data": {"inner": [1]}, "anything": [1]}


async def test_the_context_is_passed_wherever_it_stands_and_never_shown() -> None:
    @tool
    def first(ctx: ToolCallContext, n: int) -> list[Any]:
        return [ctx.call_id, n]

    @tool
    async def last(n: int, *, context: ToolCallContext | None = None) -> list[Any]:
        assert context is not None
        return [context.call_id, n]

    for made in (first, last):
        assert list(made.descriptor().parameters["properties"]) == ["n"]
        assert (await run_tool(made, {"n": 1}, call_id="c9")).result.data == ["c9", 1]


async def test_the_context_is_known_even_if_imported_for_the_type_checker_only() -> None:
    scope: dict[str, Any] = {}
    exec("def f(ctx: 'ToolCallContext') -> str:\n    return ctx.call_id", scope)
    assert (await run_tool(tool(scope["f"]))).result.data == "call_1"


async def test_a_return_type_known_to_the_type_checker_only_does_no_harm() -> None:
    @tool
    def half(n: int) -> Fraction:
        raise ToolError.denied(str(n))

    assert (await run_tool(half, {"n": 1})).result.message == "Denied: 1"


async def test_a_local_type_used_in_the_body_is_found_through_the_closure() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    @tool
    def f(local: Local) -> bool:
        return isinstance(local, Local)

    assert (await run_tool(f, {"local": {"x": 1}})).result.data is True


# -- what cannot be a tool --------------------------------------------------------------------


def _no_annotation(a) -> None: ...  # type: ignore[no-untyped-def]
def _bare_context(context) -> None: ...  # type: ignore[no-untyped-def]
def _star(*numbers: int) -> None: ...
def _double_star(**options: int) -> None: ...
def _positional(a: int, /) -> None: ...
def _unknown_name(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _checker_only(a: Fraction) -> None: ...
def _object(a: object) -> None: ...
def _two_objects(a: Place | Trip) -> None: ...
def _callable(a: threading.Thread) -> None: ...
def _broken(a: 1 + None) -> None: ...  # type: ignore[valid-type]
def _wrong_meta(a: Annotated[str, msgspec.Meta(ge=1)]) -> None: ...
def _two_contexts(a: ToolCallContext, b: ToolCallContext) -> None: ...


class _Methods:
    def method(self, a: int) -> None: ...


@pytest.mark.parametrize(
    ("fn", "parameter", "text"),
    [
        (_no_annotation, "a", "has no type: annotate it, as in `a: str`"),
        (_bare_context, "context", "has no type: write `context: ToolCallContext` to get the call"),
        (_star, "numbers", "any number of arguments: name each one"),
        (_double_star, "options", "any number of arguments: name each one"),
        (_positional, "a", "positional-only, and models name arguments: drop `/`"),
        (_unknown_name, "a", "names 'Missing', which is not known here: import or define it"),
        (_checker_only, "a", "names 'Fraction', which is not known here"),
        (_object, "a", "`object` cannot be read from JSON"),
        (_two_objects, "a", "cannot be read from JSON"),
        (_callable, "a", "`Thread` cannot be read from JSON"),
        (_broken, "a", "cannot be read"),
        (_wrong_meta, "a", "cannot be read from JSON"),
        (_two_contexts, "b", "is a second context"),
        (_Methods.method, "self", r"tool\(instance.method\)"),
    ],
)
def test_a_bad_parameter_is_refused_with_its_name_and_a_remedy(
    fn: Any, parameter: str, text: str
) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        tool(fn)
    assert str(caught.value).startswith(f"tool {fn.__name__!r}, parameter {parameter!r}: ")


def test_a_local_type_nobody_captured_is_refused_clearly() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    with pytest.raises(ConfigError, match="parameter 'a': annotation 'Local' names 'Local'"):

        @tool
        def f(a: Local) -> None: ...


def _generator(n: int) -> Any:
    yield n


async def _async_generator(n: int) -> Any:
    yield n


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        ("name", "is no function"),
        (Place, "is no function"),
        (print, "is no function"),
        (classmethod(lambda cls: None), "is no function"),
        (lambda: None, "'<lambda>' cannot be a tool's name"),
        (_generator, "yields: return a list"),
        (_async_generator, "yields: return a list"),
    ],
)
def test_other_things_are_no_tools(thing: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        tool(thing)


@pytest.mark.parametrize(
    "options", [{"name": ""}, {"name": "two words"}, {"timeout": 0}, {"timeout": -1.0}]
)
def test_bad_options_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError):
        FunctionTool(lambda: None, **({"name": "fine"} | options))


# -- bad arguments ----------------------------------------------------------------------------


@tool
def book(
    city: str,
    unit: Unit = Unit.CELSIUS,
    place: Place | None = None,
    days: list[int] | None = None,
    limits: dict[str, int] | None = None,
    by_day: dict[int, str] | None = None,
    mode: Literal["car", "train"] = "car",
) -> str:
    return city


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"city": 1}, "city: expected `str`, got `int`"),
        ({"city": None}, "city: expected `str`, got `null`"),
        ({}, "city: required, but missing"),
        (None, "city: required, but missing"),
        (
            {"city": "x", "town": 1},
            "town: unknown argument (known: city, unit, place, days, limits, by_day, mode)",
        ),
        ({"city": "x", "unit": "k"}, "unit: invalid enum value 'k', expected one of 'c', 'f'"),
        (
            {"city": "x", "mode": "bike"},
            "mode: invalid enum value 'bike', expected one of 'car', 'train'",
        ),
        ({"city": "x", "days": [1, "2"]}, "days[1]: expected `int`, got `str`"),
        ({"city": "x", "days": "1"}, "days: expected `array | null`, got `str`"),
        ({"city": "x", "limits": {"a": "b"}}, "limits[...]: expected `int`, got `str`"),
        ({"city": "x", "by_day": {"a": "b"}}, "by_day: in a key, expected `int`, got `str`"),
        ({"city": "x", "place": {"city": 1}}, "place.city: expected `str`, got `int`"),
        ({"city": "x", "place": {}}, "place.city: required, but missing"),
        ([], "expected a JSON object, got a list"),
        (3, "expected a JSON object, got a number"),
        (True, "expected a JSON object, got a boolean"),
        ('"text"', "expected a JSON object, got a string"),
        ("[1]", "expected a JSON object, got a string"),
        ('{"city": 1}', "city: expected `str`, got `int`"),
    ],
)
def test_wrong_arguments_are_explained_to_the_model(args: Any, text: str) -> None:
    with pytest.raises(ToolError) as caught:
        book.validate_args(args)
    assert caught.value.kind is ToolErrorKind.INVALID_ARGUMENTS
    assert str(caught.value) == f"Invalid arguments: {text}"


@pytest.mark.parametrize("args", ["not json", "", "\ud800"])
def test_text_that_is_not_json_is_refused(args: str) -> None:
    with pytest.raises(ToolError, match="expected a JSON object, got a string that is not JSON"):
        book.validate_args(args)


@pytest.mark.parametrize("value", ["3", 3.5, True, None, [3]])
def test_nothing_but_a_whole_number_is_an_int(value: Any) -> None:
    with pytest.raises(ToolError, match="days: expected `int`"):
        weather.validate_args({"city": "x", "days": value})


async def test_arguments_encoded_twice_are_understood() -> None:
    result = (await run_tool(weather, '{"city": "Rome"}')).result
    assert result.data == "Rome: 3 days of sun"


async def test_arguments_still_in_json_are_read_by_execute() -> None:
    output = await weather.execute({"city": "Rome"}, make_context())
    assert output.result.data == "Rome: 3 days of sun"
    with pytest.raises(ToolError, match="city: required"):
        await weather.execute({}, make_context())


# -- running ----------------------------------------------------------------------------------


async def test_sync_tools_run_beside_each_other_and_beside_the_loop() -> None:
    barrier = threading.Barrier(3, timeout=20)

    @tool
    def meet() -> str:
        barrier.wait()
        return threading.current_thread().name

    async with asyncio.TaskGroup() as group:
        one = group.create_task(run_tool(meet))
        two = group.create_task(run_tool(meet))
        # Neither tool can end before this third party arrives, by a thread the loop starts.
        await asyncio.to_thread(barrier.wait)
    names = {one.result().result.data, two.result().result.data}
    assert len(names) == 2
    assert threading.current_thread().name not in names


async def test_sync_tools_see_context_variables() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")

    @tool
    def who() -> str:
        return user.get()

    user.set("ada")
    assert (await run_tool(who)).result.data == "ada"


async def test_a_sync_wrapper_of_an_async_function_is_awaited() -> None:
    async def inner(n: int) -> int:
        return n + 1

    def outer(n: int) -> Any:
        return inner(n)

    assert (await run_tool(tool(outer), {"n": 1})).result.data == 2


async def test_a_sync_tool_that_raises_stop_iteration_fails_and_does_not_hang() -> None:
    @tool
    def first() -> int:
        return next(iter([]))

    message = (await run_tool(first)).result.message
    assert message is not None
    assert message.startswith("Execution failed: RuntimeError: the function raised StopIteration")


# -- answers ----------------------------------------------------------------------------------


class _Level(enum.StrEnum):
    HIGH = "high"


@pytest.mark.parametrize(
    ("value", "data", "text"),
    [
        ("plain", "plain", "plain"),
        ("", "", ""),
        (None, None, "done"),
        (3, 3, "3"),
        (True, True, "true"),
        (1.5, 1.5, "1.5"),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, '{"a":[1,{"b":null}]}'),
        ([], [], "[]"),
        ((1, 2), [1, 2], "[1,2]"),
        ({1: "a"}, {"1": "a"}, '{"1":"a"}'),
        (Place("Rome"), {"city": "Rome", "zip_code": None}, '{"city":"Rome","zip_code":null}'),
        (float("nan"), "NaN", "NaN"),
        ([1.5, float("inf"), None], [1.5, "Infinity", None], '[1.5,"Infinity",null]'),
        ({"x": (float("-inf"),)}, {"x": ["-Infinity"]}, '{"x":["-Infinity"]}'),
        ([Trip(Place("x"))], [{"start": {"city": "x", "zip_code": None}, "points": []}], None),
        (Unit.CELSIUS, "c", "c"),
        (_Level.HIGH, "high", "high"),
        (datetime.date(2024, 1, 2), "2024-01-02", "2024-01-02"),
        ("caf\u00e9", "caf\u00e9", "caf\u00e9"),
        ("name \udcff", "name \ufffd", "name \ufffd"),
        ("two halves \ud83d\ude00", "two halves \U0001f600", "two halves \U0001f600"),
    ],
)
async def test_what_a_function_returns_is_what_the_model_reads(
    value: Any, data: Any, text: str | None
) -> None:
    @tool
    def f() -> Any:
        return value

    result = (await run_tool(f)).result
    assert result.status is ToolStatus.SUCCESS
    assert result.tool_name == "f"
    assert result.data == data
    assert text is None or result.model_text() == text


@pytest.mark.parametrize("wrap", [lambda result: result, ToolOutput], ids=["result", "output"])
async def test_a_number_that_json_does_not_have_is_told_in_results_too(
    wrap: Callable[[ToolResult], Any],
) -> None:
    @tool
    def f() -> Any:
        return wrap(ToolResult.success("f", {"x": float("nan"), "y": (float("-inf"), None)}))

    result = (await run_tool(f)).result
    assert result.data == {"x": "NaN", "y": ["-Infinity", None]}
    assert result.model_text() == '{"x":"NaN","y":["-Infinity",null]}'


async def test_results_and_outputs_pass_unchanged() -> None:
    result = ToolResult.error_with_code("other", "E1", "no")
    output = ToolOutput(result, Command())

    @tool
    async def gives(which: str) -> Any:
        return result if which == "result" else output

    assert (await run_tool(gives, {"which": "result"})).result == result
    given = await run_tool(gives, {"which": "output"})
    assert given.result == result
    assert given.command is output.command


async def test_a_value_that_is_not_json_is_an_error_naming_tool_and_type() -> None:
    @tool
    def open_it(cyclic: bool) -> Any:
        loop: list[Any] = []
        loop.append(loop)
        return loop if cyclic else threading.Lock()

    with pytest.raises(ToolError, match="tool 'open_it' returned a lock, which is not") as caught:
        await open_it.execute({"cyclic": False}, make_context())
    assert caught.value.kind is ToolErrorKind.EXECUTION_FAILED
    with pytest.raises(ToolError, match="tool 'open_it' returned a list"):
        await open_it.execute({"cyclic": True}, make_context())


async def test_a_returned_value_may_be_changed_later_without_changing_the_result() -> None:
    kept = {"items": [1]}

    @tool
    def f() -> Any:
        return kept

    result = (await run_tool(f)).result
    kept["items"].append(2)
    assert result.data == {"items": [1]}
