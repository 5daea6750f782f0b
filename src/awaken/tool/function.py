"""Functions as tools: the decorator `tool`, and `FunctionTool`, which it makes."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Collection
from enum import StrEnum
from types import CoroutineType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

import msgspec

from awaken.codec import Json
from awaken.core.suspension import ToolCallResume
from awaken.core.tool import Recover, ToolDescriptor, ToolEffect, ToolKind
from awaken.core.tool_context import Tool, ToolCallContext, ToolOutput, ToolTraits
from awaken.errors import ConfigError
from awaken.tool.approval import ask_for_approval, check_approved
from awaken.tool.arguments import FunctionReader
from awaken.tool.output import to_output
from awaken.tool.signature import Signature, parse_docstring, plain_function, read_signature
from awaken.tool.thread_pool import TOOL_THREADS

if TYPE_CHECKING:
    from awaken.tool.isolation import IsolatedFunction

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(fn: Callable[P, R], /, **options: Unpack[ToolOptions]) -> FunctionTool[P, R]: ...
@overload
def tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(fn: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    """A tool made from a function: `@tool`, `@tool(name=...)`, or `tool(fn)`.

    The annotations and the docstring tell the model which arguments to give; a parameter annotated
    `ToolCallContext` is filled in by the runtime. Functions that are not async run in a thread, so
    they may block. A thread cannot be stopped; `isolated=True` runs the function in a process that
    is killed when the call is cancelled or times out.

    Args:
        name, description: replace the function's own.
        needs_approval: whether to ask an approver before it runs, or a function of the arguments
            that returns that.
        timeout: the most seconds a call may take; after that the model gets an error.
        isolated: run it in a worker process; for plain functions at the top level of a module.
        pass_env: names of further environment variables for the worker process.
        sequential: never run it at the same time as other calls of its step.
        retries, on_exhausted: how often the model may try again after `Retry` or invalid arguments,
            and whether its next error says to go on without the tool, or the run stops.
        effect: `"read"`, `"idempotent"` or `"once"`, which decides what happens after a crash.
        recover, verify: how to settle a call whose outcome is unknown after a crash.
        approval_expires_in: seconds after which an unanswered approval counts as a no.
        id, category, kind: see `ToolDescriptor`.

    Raises:
        ConfigError: the function cannot be a tool; the text names the parameter and the remedy.
    """
    if fn is None:
        return functools.partial(FunctionTool, **options)
    return FunctionTool(fn, **options)


def tool_of(owner: str, item: Tool | Callable[..., Any]) -> Tool:
    """The item as a tool; a function is made into one.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(item, type):
        raise ConfigError(
            f"{owner}: {item.__name__} is a class, not a tool; give an instance of it"
        )
    if callable(getattr(item, "descriptor", None)):
        return item  # type: ignore[return-value]  # an object with a descriptor is a tool
    if callable(item):
        return tool(item)
    if isinstance(item, CoroutineType):
        name = item.__name__
        item.close()  # it cannot be awaited any more, and Python would warn of that
        raise ConfigError(f"{owner}: {name}(…) is a call, not a tool; give {name} itself")
    remedy = "give a function or an object with descriptor() and execute()"
    if isinstance(item, str):
        remedy += f", not its name: tools=[{item}]" if item.isidentifier() else ", not its name"
    raise ConfigError(f"{owner}: {item!r} is not a tool; {remedy}")


class ToolOptions(TypedDict, total=False):
    """The options of a tool; see `FunctionTool`."""

    name: str | None
    description: str | None
    id: str | None
    category: str | None
    kind: ToolKind | None
    sequential: bool
    timeout: float | None
    isolated: bool
    pass_env: Collection[str]
    needs_approval: bool | Callable[..., bool]
    approval_expires_in: float | None
    retries: int
    on_exhausted: Literal["tell", "stop"]
    effect: ToolEffect | Literal["read", "idempotent", "once"]
    recover: Recover | Literal["retry", "verify", "ask", "report"] | None
    verify: Callable[[ToolCallContext], Any] | None


class FunctionTool(Generic[P, R]):
    """A function that the model may call. Called directly, it behaves like the function itself.

    Args:
        name: the name for the model; by default the function's own.
        description: the description for the model; by default the docstring up to its first
            section.
        id: the id in registries; by default the name.
        sequential: never run at the same time as other calls of the same step.
        timeout: the most seconds a call may take. A plain (not async) function cannot be stopped
            unless it is isolated: its thread goes on, and its return value is dropped. An async
            function that swallows its cancellation is abandoned after a few seconds.
        isolated: run a plain function in a worker process, which is killed, with all it started,
            when the call is cancelled or takes too long. A worker imports the function's module
            afresh and is used again for later calls, so what the module keeps in memory is each
            worker's own, as are its environment and directory. A call waits while as many others as
            there are processors are under way; starting and waiting count as its time. Arguments
            are pickled, so their types must be importable, too. Its return value is treated like
            any tool's, except that state changes are refused. From a `ToolCallContext` it gets the
            plain data (`idempotency_key`, `arguments`, `run_identity` …); state and services raise,
            and progress reports do nothing. Its output goes to stderr. Processes that it has
            started end with its worker, at the latest when this process does. If the worker dies,
            the call fails and says how; whether a call of a `once` tool took effect is then
            unknown. Its environment has the variables that programs need to run, and no API keys.
        pass_env: names of further environment variables that an isolated function gets, with the
            values they have in this process.
        needs_approval: ask an approver before running: always, or if this function of the decoded
            arguments returns true.
        approval_expires_in: seconds after which an unanswered approval counts as a no.
        retries: how often in a run the model may try again after the function raised `Retry`, or
            was called with invalid arguments.
        on_exhausted: what happens after that: the error text says to go on without the tool
            (`tell`), or the run stops (`stop`).
        effect: its side effects: `read` (none), `idempotent` or `once`. A call with side effects
            starts only after its intent and its idempotency key have been stored.
        recover: what to do with a call that a crash left without an outcome: `retry`, `verify`,
            `ask` or `report`; see `ToolTraits`.
        verify: a function of the call's context (`ctx.idempotency_key`, `ctx.arguments`), async or
            not, that returns whether the call happened; see `ToolTraits`.

    Raises:
        ConfigError: the function cannot be a tool; the text names the parameter and the remedy.
    """

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        id: str | None = None,
        category: str | None = None,
        kind: ToolKind | None = None,
        sequential: bool = False,
        timeout: float | None = None,
        isolated: bool = False,
        pass_env: Collection[str] = (),
        needs_approval: bool | Callable[..., bool] = False,
        approval_expires_in: float | None = None,
        retries: int = 2,
        on_exhausted: Literal["tell", "stop"] = "tell",
        effect: ToolEffect | Literal["read", "idempotent", "once"] = ToolEffect.ONCE,
        recover: Recover | Literal["retry", "verify", "ask", "report"] | None = None,
        verify: Callable[[ToolCallContext], Any] | None = None,
    ) -> None:
        plain = plain_function(fn)
        if plain is None or not callable(fn):
            raise ConfigError(f"{fn!r} is no function: write @tool above one, or tool(function)")
        functools.update_wrapper(self, fn)
        self.name = check_name(plain.__name__ if name is None else name)
        if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
            raise ConfigError(f"tool {self.name!r} yields: return a list, or one text, instead")
        for option, seconds in (("timeout", timeout), ("approval_expires_in", approval_expires_in)):
            if seconds is not None and not seconds > 0:
                wrong = f"tool {self.name!r}: {option} {seconds!r} is not above 0 seconds"
                raise ConfigError(wrong)
        given: Any = retries
        if not isinstance(given, int) or isinstance(given, bool) or given < 0:
            raise ConfigError(
                f"tool {self.name!r}: retries is a whole number from 0 on, not {given!r}"
            )
        if on_exhausted not in ("tell", "stop"):
            raise ConfigError(
                f"tool {self.name!r}: on_exhausted is 'tell' or 'stop', not {on_exhausted!r}"
            )
        self._fn = fn
        self._is_async = inspect.iscoroutinefunction(fn)
        signature = read_signature(fn, self.name)
        self._context = signature.context
        self.deps = signature.deps
        if isolated and self.deps is not None:
            raise ConfigError(
                f"tool {self.name!r} is isolated, and dependencies do not leave their process: "
                "make what it needs inside it and take `ToolCallContext`, or drop isolated=True"
            )
        if pass_env and not isolated:
            raise ConfigError(f"tool {self.name!r}: pass_env is for isolated=True")
        self._isolated = _isolate(self.name, fn, signature, pass_env) if isolated else None
        text = parse_docstring(plain.__doc__)
        self._reader = FunctionReader(self.name, signature.parameters, text.parameters)
        self.traits = ToolTraits(
            sequential=sequential,
            timeout=timeout,
            effect=parse_word(self.name, "effect", effect, ToolEffect),
            recover=_parse_recovery(self.name, recover, verify),
            stoppable=self._is_async or isolated,
            retries=retries,
            stops_exhausted=on_exhausted == "stop",
        )
        self.needs_approval = _parse_condition(self.name, needs_approval, signature)
        self._expires_in = approval_expires_in
        self._verify = verify
        self._descriptor = ToolDescriptor(
            id=self.name if id is None else id,
            name=self.name,
            description=text.description if description is None else description,
            parameters=self._reader.schema,
            category=category,
            kind=kind,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionTool({self.name!r})"

    def descriptor(self) -> ToolDescriptor:
        return self._descriptor

    def validate_args(self, args: Json) -> msgspec.Struct:
        """The arguments as typed values, for `execute`.

        Raises:
            ToolError: they do not fit the function's annotations.
        """
        return self._reader.read(args)

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        """Call the function and return its output, or a suspension if the call must be approved
        first.

        Args:
            args: the result of `validate_args`, or JSON, which is then decoded first.
            ctx: passed on if the function has a parameter for it.
        """
        if type(args) is not self._reader.type:
            args = self._reader.read(args)
        values = msgspec.structs.asdict(args)
        if self.needs_approval and not self._is_approved(values, ctx.resume_input):
            given = self._reader.write_arguments(args)
            return ToolOutput(ask_for_approval(self.name, given, ctx, expires_in=self._expires_in))
        if self._isolated is not None:
            return await self._isolated.call(values, ctx)
        if self._context is not None:
            values[self._context] = ctx
        value: Any
        if self._is_async:
            value = await self._fn(**values)  # type: ignore[misc,call-arg]
        else:
            value = await TOOL_THREADS.get().call(self.name, self._fn, values)
            if inspect.isawaitable(value):  # a plain wrapper around an async function
                value = await value
        return to_output(self.name, value)

    def only_asks(self, args: Json, decision: ToolCallResume | None) -> bool:
        """Whether a call with these arguments will only ask for an approval."""
        if not self.needs_approval or decision is not None:
            return False
        if not callable(self.needs_approval):
            return True
        try:
            return bool(self.needs_approval(**msgspec.structs.asdict(self._reader.read(args))))
        except BaseException:
            return False  # the call itself will report the error

    async def verify(self, ctx: ToolCallContext) -> Any:
        """Whether a call whose outcome is unknown took effect; see `ToolTraits`."""
        if self._verify is None:
            return None
        answer = self._verify(ctx)
        return await answer if inspect.isawaitable(answer) else answer

    def _is_approved(self, values: dict[str, Any], decision: ToolCallResume | None) -> bool:
        if decision is None:
            return callable(self.needs_approval) and not self.needs_approval(**values)
        check_approved(self.name, decision)
        return True


def _parse_condition(
    tool: str, needs_approval: bool | Callable[..., bool], signature: Signature
) -> bool | Callable[..., bool]:
    """
    Raises:
        ConfigError: it is neither a truth value nor a plain function of the call's arguments.
    """
    given: Any = needs_approval
    if isinstance(given, bool):
        return given
    names = [parameter.name for parameter in signature.parameters]
    takes = f"tool {tool!r}: needs_approval is True, or a plain function of the call's arguments"
    if not callable(given) or inspect.iscoroutinefunction(given):
        raise ConfigError(f"{takes}, not {'an async one' if callable(given) else repr(given)}")
    try:
        inspect.signature(given).bind(**dict.fromkeys(names))
    except TypeError as error:
        write = f"write lambda {', '.join(names)}: …" if names else "write needs_approval=True"
        raise ConfigError(f"{takes}: {error}: {write}") from error
    except ValueError:
        pass  # a builtin without a signature
    return needs_approval


def _isolate(
    tool: str, fn: Callable[..., Any], signature: Signature, pass_env: Collection[str]
) -> IsolatedFunction:
    if inspect.iscoroutinefunction(fn):
        raise ConfigError(
            f"tool {tool!r} is async, and a cancel stops it anyway: leave out isolated=True, or "
            "make it a plain function"
        )
    # Imported by name, so that programs without isolated tools do not load the worker code.
    worker = importlib.import_module("awaken.tool.isolation")
    function: IsolatedFunction = worker.IsolatedFunction(fn, tool, signature, pass_env)
    return function


def _parse_recovery(
    tool: str, recover: str | None, verify: Callable[[ToolCallContext], Any] | None
) -> Recover | None:
    if recover is None:
        return Recover.VERIFY if verify is not None else None
    policy = parse_word(tool, "recover", recover, Recover)
    if (policy is Recover.VERIFY) != (verify is not None):
        raise ConfigError(
            f"tool {tool!r}: recover='verify' and verify=<function of the call's context> "
            "belong together"
        )
    return policy


# -- checks of options ------------------------------------------------------------------------

W = TypeVar("W", bound=StrEnum)


def parse_word(tool: str, option: str, word: str, kind: type[W]) -> W:
    try:
        return kind(word)
    except ValueError:
        words = ", ".join(repr(member.value) for member in kind)
        raise ConfigError(f"tool {tool!r}: {option} is one of {words}, not {word!r}") from None


_NAME = r"[A-Za-z0-9_.:-]{1,128}"


def is_name(name: str) -> bool:
    """Whether the name has letters that names of tools may have."""
    return re.fullmatch(_NAME, name) is not None


def check_name(name: str) -> str:
    if not is_name(name):
        raise ConfigError(
            f"{name!r} cannot be a tool's name: give one of letters, digits, `_`, `-`, `.` and `:` "
            "with tool(name=...)"
        )
    return name
