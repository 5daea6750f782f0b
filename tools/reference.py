"""The reference, as pages of Markdown, made from signatures and docstrings with `inspect`.

`PAGES` says which names of the public modules stand on which page. A name of `awaken.__all__` that
stands on no page is an error.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from importlib import import_module
from operator import or_
from types import ModuleType
from typing import Any

import click
import msgspec

import awaken
from awaken.cli.app import cli
from awaken.core import event

WIDTH = 96


@dataclass(frozen=True)
class Part:
    """Some names of a module; all that it exports, or defines, if none are given. Names that stand
    on another page are left out with `but`."""

    module: str
    names: str = ""
    but: str = ""

    def items(self) -> Iterator[tuple[str, Any]]:
        module = import_module(self.module)
        for name in self.names.split() or exported(module):
            if name not in self.but.split():
                yield name, getattr(module, name)


MESSAGES = (
    "Role Text Thinking ToolUse ToolResultBlock Image Audio Video Document Citation Opaque "
    "ContentBlock MediaSource Base64Source BlobSource UrlSource MessageMetadata Visibility "
    "InferenceRequest OutputFormat StreamResult StreamSnapshot StopReason Stop TokenUsage Usage "
    "LlmStreamEvent StreamListener ContentBlockStop ReasoningDone ToolCallSigned import_history"
)
MODEL_PROTOCOLS = "LlmExecutor StreamDriver AnswerListener TokenCounter"
SEARCH = "SearchPage SearchHit SearchState UsageRow"
STORES = "MemoryStore SqliteStore PostgresStore MemoryProfiles SqliteProfiles PostgresProfiles"
STORE_PROTOCOLS = "Store Commits Threads Commands ProfileStore"


PAGES: Mapping[str, tuple[str, str, tuple[Part, ...]]] = {
    "agents": (
        "Agents and results",
        "An agent, what its runs return, and what they may use up.",
        (
            Part("awaken", "Agent RemoteAgent RunResult RunInfo Budget Price ModelSettings"),
            Part("awaken", "InferenceOverride AgentSpec RedactedString"),
            Part("awaken.toolsets", "toolset"),  # on the page of tools it would be `Toolset`
        ),
    ),
    "runtime": (
        "The runtime",
        "What runs agents: it opens a store, keeps threads, and recovers runs.",
        (
            Part("awaken", "Runtime"),
            Part("awaken.runtime", but=f"Agent RemoteAgent RunResult {SEARCH}"),
            Part("awaken", "RunRequest CancellationToken"),
        ),
    ),
    "search": (
        "Search results",
        "What `runtime.search` and `runtime.usage` return.",
        (Part("awaken.runtime", SEARCH),),
    ),
    "replay": (
        "Record and replay",
        "Recordings of runs, and running them again.",
        (Part("awaken.runtime.replay"),),
    ),
    "tools": (
        "Tools",
        "What a model may call.",
        (
            Part("awaken", "tool TypedTool FrontEndTool ToolCallContext ToolOutput ToolResult"),
            Part("awaken", "ToolError Retry RunContext ToolDescriptor ToolCall"),
            Part("awaken.toolsets", "Toolset"),
            Part("awaken.tool"),
        ),
    ),
    "plugins": (
        "State and plugins",
        "Typed state, and behaviour at every phase of a run.",
        (
            Part("awaken", "StateKey Merge Scope ProfileKey Command Done RUN_LIFECYCLE Phase"),
            Part("awaken", "PhaseContext Plugin Registrar Block SetResult Suspend SuspendTicket"),
            Part("awaken", "ToolCallResume ContextMessage"),
            Part("awaken.plugin"),
        ),
    ),
    "ext": (
        "Built-in plugins",
        "Hand-overs, background tasks, summaries of long threads, and conditions that end a run.",
        (
            Part("awaken.ext.tasks"),
            Part("awaken.ext.handoff"),
            Part("awaken.ext.compaction"),
            Part("awaken.ext.stop"),
        ),
    ),
    "models": (
        "Models",
        "Providers, retries, pools, and what is known of a model.",
        (Part("awaken.models", but=f"{MESSAGES} {MODEL_PROTOCOLS}"),),
    ),
    "messages": (
        "Messages",
        "Messages and their content, what a model is asked, and what it answers.",
        (Part("awaken", "Message"), Part("awaken.models", MESSAGES)),
    ),
    "stores": (
        "Stores",
        "Where threads and profiles are kept, where blobs are, and the live bus.",
        (
            Part("awaken.stores", STORES),
            Part("awaken.blobs", but="BlobStore BlobUses OpenBlob"),
        ),
    ),
    "records": (
        "Records",
        "What a store keeps: threads, runs, tickets, commands; and queries for them.",
        (Part("awaken.stores", but=f"{STORES} {STORE_PROTOCOLS}"),),
    ),
    "store-protocols": (
        "A store of your own",
        "The protocols of stores, of places for blobs, and of a live bus.",
        (
            Part("awaken.stores", STORE_PROTOCOLS),
            Part("awaken.blobs", "BlobStore BlobUses OpenBlob"),
            Part("awaken.bus"),
        ),
    ),
    "events": (
        "Events",
        "What a run tells its listeners. Durable events have a `seq` and are committed together "
        "with the change they report; transient events reach only clients that listen right then.",
        (Part("awaken", "RunEvent"), Part("awaken.events")),
    ),
    "protocols": (
        "Protocols to implement",
        "What your own code may bring: models, tools, backends, listeners, clocks.",
        (
            Part("awaken.models", MODEL_PROTOCOLS),
            Part("awaken.tool", "Tool SupportsApproval"),
            Part("awaken.backend", "ExecutionBackend ExecutionBackendFactory"),
            Part("awaken.events", "EventSink"),
            Part("awaken", "Plugin"),
            Part(
                "awaken.plugin",
                "RunScoped BindsRuntimeContext SupportsActivation SupportsClose Configured",
            ),
            Part("awaken.server", "Authenticator"),
            Part("awaken.clock"),
            Part("awaken.ids"),
        ),
    ),
    "backend": ("Backends", "Where a run executes.", (Part("awaken.backend"),)),
    "server": ("Server", "Serving agents over HTTP.", (Part("awaken.server"),)),
    "testing": (
        "Testing",
        "For tests of agents, tools, stores and backends.",
        (
            Part("awaken.testing", "ScriptedModel FunctionModel text_response tool_call_response"),
            Part("awaken.testing"),
            Part("awaken.testing.conformance"),
            Part("awaken.testing.chaos"),
        ),
    ),
}


def reference_pages() -> dict[str, str]:
    """All pages of the reference, by name.

    Raises:
        LookupError: a public name stands nowhere.
    """
    found: dict[str, str] = {}
    pages: dict[str, str] = {}
    for page, (title, about, parts) in PAGES.items():
        sections, seen = [], set[str]()
        for part in parts:
            for name, thing in part.items():
                if name.lower() in seen or (is_error(thing) and name not in part.names):
                    continue  # errors have a page of their own
                seen.add(name.lower())
                sections.append(section(name, thing, part.module))
                if name in awaken.__all__ and getattr(awaken, name) is thing:
                    found.setdefault(name, f"{page}.md#{name.lower()}")
        pages[page] = f"# {title}\n\n{about}\n\n" + "\n".join(sections)
    pages["errors"] = errors_page()
    pages["cli"] = cli_page()
    found["AwakenError"] = "errors.md#awakenerror"
    pages["index"] = index_page(found)
    return pages


def index_page(found: Mapping[str, str]) -> str:
    names = sorted(set(awaken.__all__) - {"__version__"}, key=str.lower)
    missing = sorted(set(names) - found.keys())
    if missing:
        raise LookupError(f"the reference has no place for {', '.join(missing)}: add them to PAGES")
    lines = [
        "# Reference",
        "",
        "Everything in `from awaken import …`. `awaken.__version__` is the version of the "
        "installed package. [What is public](../public.md) lists the other public modules.",
        "",
        "| name | |",
        "|---|---|",
    ]
    for name in names:
        lines.append(f"| [`{name}`]({found[name]}) | {first_line(name)} |")
    lines += ["", "All pages:", ""]
    for page, (title, about, _) in PAGES.items():
        lines.append(f"- [{title}]({page}.md): {about}")
    lines.append("- [Errors](errors.md): one tree; `AwakenError` catches all.")
    lines.append("- [The command line](cli.md): every command and option.")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """The tree as it is drawn, and the public errors, wherever they are defined."""
    errors = import_module("awaken.errors")
    homes: dict[type, str] = {}
    for module in ["awaken.errors", *public_modules()]:
        for _, thing in Part(module).items():
            if is_error(thing):
                homes.setdefault(thing, module)
    classes = sorted(homes, key=lambda kind: kind.__name__.lower())
    drawn = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")
    sections = [section(kind.__name__, kind, homes[kind]) for kind in classes]
    return f"# Errors\n\n{drawn[0]}\n\n```text\n{drawn[2]}\n```\n\n" + "\n".join(sections)


def public_modules() -> list[str]:
    """The modules whose names stand in the reference."""
    return sorted({part.module for _, _, parts in PAGES.values() for part in parts})


def cli_page() -> str:
    lines = ["# The command line", ""]
    context = click.Context(cli, info_name="awaken", max_content_width=WIDTH, terminal_width=WIDTH)
    lines += ["```text", cli.get_help(context), "```", ""]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        lines += [f"## {name}", "", "```text", command.get_help(inner), "```", ""]
    return "\n".join(lines)


# -- one name ---------------------------------------------------------------------------------


def section(name: str, thing: Any, module: str) -> str:
    """What there is to say of one name."""
    where = f"<small>`{module}`</small>\n"
    if isinstance(thing, type):
        return f"## {name}\n\n{where}\n{of_class(thing)}"
    if inspect.isfunction(thing):
        return f"## {name}\n\n{where}\n{code(signature(name, thing))}\n{prose(thing.__doc__)}"
    return f"## {name}\n\n{where}\n{code(of_value(name, thing))}\n{prose(said_of(module, name))}"


def of_value(name: str, thing: Any) -> str:
    """A constant or a type alias as it would be written, without the modules of its parts."""
    if type(thing) is tuple:
        thing = reduce(or_, thing)  # classes, for `isinstance`
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", repr(thing))
    if text.startswith("<"):
        return f"{name}: {type(thing).__name__}"
    if len(name) + len(text) + 3 <= WIDTH or " | " not in text:
        return f"{name} = {text}"
    return f"{name} = (\n    " + "\n    | ".join(text.split(" | ")) + "\n)"


def of_class(kind: type) -> str:
    parts = [code(declaration(kind)), prose(kind.__doc__)]
    if issubclass(kind, event.Event):
        parts.insert(1, "*Durable.*\n" if issubclass(kind, event.DURABLE) else "*Transient.*\n")
    bare: list[str] = []
    for name, member in members(kind):
        what = member.fget if isinstance(member, property) else member
        shown = name if isinstance(member, property) else signature(name, what, bound=True)
        if what.__doc__:
            parts.append(f"### {kind.__name__}.{name}\n\n{code(shown)}\n{prose(what.__doc__)}")
        else:
            bare.append(shown)  # its name says it all
    if bare:
        heading = "Further members:" if len(parts) > 2 else "Members:"
        parts.append(f"{heading}\n\n" + code("\n".join(bare)))
    return "\n".join(parts)


def declaration(kind: type) -> str:
    """How a class is made: its fields, its members, or its arguments."""
    if issubclass(kind, Enum):
        return "\n".join(
            [f"class {kind.__name__}:", *(f"    {m.name} = {m.value!r}" for m in kind)]
        )
    if issubclass(kind, msgspec.Struct):
        return "\n".join([f"class {kind.__name__}:", *own_fields(kind)])
    if getattr(kind, "_is_protocol", False) or "__init__" not in vars(kind):
        return f"class {kind.__name__}"
    return signature(f"class {kind.__name__}", kind.__init__, bound=True).removesuffix(" -> None")


def own_fields(kind: type[msgspec.Struct]) -> list[str]:
    """One line for each field. Types are shown as they are written: some are known to type checkers
    alone."""
    types: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        types |= vars(base).get("__annotations__", {})
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    given = dict(zip(reversed(names), reversed(defaults), strict=False))
    return [f"    {name}: {written(types[name])}{default(given, name)}" for name in names]


def default(given: Mapping[str, Any], name: str) -> str:
    made = given.get(name, msgspec.NODEFAULT)
    if made is msgspec.NODEFAULT:
        return ""
    make = getattr(made, "factory", None)
    return f" = {value(make() if make is not None else made)}"


def members(kind: type) -> Iterable[tuple[str, Any]]:
    """Public methods and properties that are ours, those of the class itself first."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("awaken.") or issubclass(base, Enum):
            continue
        for name, member in vars(base).items():
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if name.startswith("_") or name in seen or getattr(kind, name, None) is None:
                continue
            if inspect.isfunction(plain) or isinstance(plain, property):
                seen.add(name)
                yield name, plain


def signature(name: str, fn: Any, *, bound: bool = False) -> str:
    """A function's head; on several lines if it is long."""
    sign = inspect.signature(fn)
    given = list(sign.parameters.values())
    if bound and given and given[0].name in ("self", "cls"):
        given = given[1:]
    plain = inspect.unwrap(fn)  # on Python 3.11 a wrapper cannot be marked as async
    starts = inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain)
    head = f"async {name}" if starts else name
    tail = "" if sign.return_annotation is sign.empty else f" -> {written(sign.return_annotation)}"
    arguments = list(parameters(given))
    line = f"{head}({', '.join(arguments)}){tail}"
    if len(line) <= WIDTH:
        return line
    return f"{head}(\n" + "".join(f"    {each},\n" for each in arguments) + f"){tail}"


def parameters(given: Iterable[inspect.Parameter]) -> Iterator[str]:
    """Parameters as they are written, with the stars and slashes between them."""
    before: inspect.Parameter | None = None
    for each in given:
        if before is not None and before.kind is each.POSITIONAL_ONLY is not each.kind:
            yield "/"
        starred = before is not None and before.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        if each.kind is each.KEYWORD_ONLY and not starred:
            yield "*"
        stars = "*" * (each.kind is each.VAR_POSITIONAL) + "**" * (each.kind is each.VAR_KEYWORD)
        typed = "" if each.annotation is each.empty else f": {written(each.annotation)}"
        default = "" if each.default is each.empty else f" = {value(each.default)}"
        yield f"{stars}{each.name}{typed}{default if typed else default.replace(' ', '')}"
        before = each
    if before is not None and before.kind is before.POSITIONAL_ONLY:
        yield "/"


def written(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def value(of: Any) -> str:
    """A default as it would be written; dots where it would not."""
    if isinstance(of, Enum):
        return f"{type(of).__name__}.{of.name}"
    return "..." if repr(of).startswith("<") else repr(of)


def code(text: str) -> str:
    return f"```py\n{text}\n```\n"


# -- docstrings -------------------------------------------------------------------------------


def prose(text: str | None) -> str:
    """A docstring as Markdown: its sections become lists."""
    if not text:
        return ""
    lines: list[str] = []
    for block in re.split(r"\n(?=(?:Args|Raises|Returns):\n)", inspect.cleandoc(text)):
        head, _, rest = block.partition("\n")
        if head in ("Args:", "Raises:", "Returns:"):
            items = re.split(r"\n(?=\S)", textwrap.dedent(rest).split("\n\n")[0])
            lines += ["", f"**{head.removesuffix(':')}**", "", *map(item, items)]
        else:
            lines.append(block)
    return "\n".join(lines).strip() + "\n"


def item(text: str) -> str:
    names, colon, about = " ".join(text.split()).partition(": ")
    return f"- `{names}`: {about}" if colon else f"- {names}"


def first_line(name: str) -> str:
    thing = getattr(awaken, name)
    text = inspect.getdoc(thing) if callable(thing) else said_of("awaken", name)
    return " ".join((text or "").partition("\n\n")[0].split()).replace("|", "\\|")


def said_of(module: str, name: str) -> str | None:
    """The text that stands beneath an assignment, wherever the name was imported from."""
    tree = ast.parse(inspect.getsource(import_module(module)))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return said_of(node.module or "", name)
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        text = after.value if isinstance(after, ast.Expr) else None
        if name in names and isinstance(text, ast.Constant):
            return str(text.value)
    return None


def exported(module: ModuleType) -> list[str]:
    """What a module exports, or else its own public classes, in their order."""
    names: list[str] | None = getattr(module, "__all__", None)
    if names is not None:
        return names
    return [
        name
        for name, thing in vars(module).items()
        if isinstance(thing, type)
        and thing.__module__ == module.__name__
        and not name.startswith("_")
    ]


def is_error(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseException)
