"""Names are plain: verbs in base form, nouns of the field, one class a name.

The rules are those of `docs/contributing.md`. What breaks one and has to stay stands in
`EXCEPTIONS`, with its reason: the list may only shrink.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import awaken

SOURCE = Path(awaken.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
ROOMS = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
SHELVES = {"stores", "models", "ext"}
"""Peers stand side by side here, and call the same thing by the same name."""

IRREGULAR = re.compile(
    r"told|said|kept|held|heard|lost|left|gone|begun|done|asked|given|taken|made|seen|found|sent"
    r"|shown|known|meant|built|bound|brought|bought|caught|chosen|drawn|fallen|felt|got|gotten"
    r"|grown|hidden|laid|led|met|paid|spent|spoken|stood|stuck|thought|thrown|torn|understood"
    r"|woken|won|worn|written|broken|driven|forgotten|frozen|taught"
)
BASE_FORMS = {"need", "feed", "embed", "seed", "shed", "exceed", "proceed", "speed", "succeed"}
"""These end like participles, and are none."""
PICTURES = re.compile(
    r"book|purse|door|room|letter|mail|news|place|tape|suspect|witness|house|desk|beneath"
    r"|tells?|told|hears?"
)
VERBS = {"book", "place"}
"""At the beginning of a name these are verbs."""
PRONOUNS = re.compile(r"who|whom|whose|what|nobody|somebody|anybody|everybody|whoever")
CHECKS = "testing/conformance/"
"""What is called so is a sentence about a store, a bus or a backend, as the name of a test is."""
EXCEPTIONS = {
    "core/aio/cancel.py:CancellationToken.cancelled": "the specification's name",
    "core/backend.py:BackendCapabilities.unsupported_root_features": "the specification's name",
    "core/backend.py:BackendCapabilities.unsupported_delegate_features": "the specification's name",
    "core/message.py:Message.produced_by_run_id": "the specification's name",
    "ext/tasks/task.py:TaskContext.cancelled": "as `CancellationToken.cancelled`",
    "testing/conformance/suites.py:shared_store_checks": "an adjective: checks of a shared store",
    "tool/toolset.py:Toolset.when": "a condition, not an event",
}


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word.lower() for word in spaced.split("_") if word]


def _is_participle(word: str) -> bool:
    regular = word.endswith("ed") and word not in BASE_FORMS
    return regular or IRREGULAR.fullmatch(word) is not None


def _definitions() -> Iterator[tuple[str, ast.AST, ast.ClassDef | None]]:
    """Every class and function, with its module's path and the class it stands in."""
    for path in sorted(SOURCE.rglob("*.py")):
        todo: list[tuple[ast.AST, ast.ClassDef | None]] = [(ast.parse(path.read_text()), None)]
        while todo:
            parent, owner = todo.pop()
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, ast.ClassDef):
                    yield str(path.relative_to(SOURCE)), node, owner
                    todo.append((node, node))
                elif isinstance(node, Function):
                    yield str(path.relative_to(SOURCE)), node, owner
                    todo.append((node, None))
                else:
                    todo.append((node, owner))


DEFINITIONS = list(_definitions())


def _decorators(node: Function) -> set[str]:
    return {ast.unparse(each).split("(")[0].split(".")[-1] for each in node.decorator_list}


def _is_state_or_copy(node: Function, owner: ast.ClassDef | None) -> bool:
    """Whether a participle is right here: a property that says a state or names a thing, a
    constructor of a status, a method that returns a changed copy."""
    if owner is None:
        return False
    returned = ast.unparse(node.returns).strip("'\"") if node.returns else ""
    if _decorators(node) & {"property", "cached_property"}:
        return returned == "bool" or len(_words(node.name)) > 1
    return returned.split("[")[0] in {owner.name, "Self"}


def _broken_by_function(node: Function, owner: ast.ClassDef | None) -> Iterator[str]:
    words = _words(node.name)
    returned = ast.unparse(node.returns).strip("'\"") if node.returns else ""
    if words and _is_participle(words[0]) and not _is_state_or_copy(node, owner):
        yield "a participle for a verb"
    is_predicate = words and words[0] in {"is", "has", "can", "should", "needs"}
    if is_predicate and not re.match(r"bool\b|TypeGuard|TypeIs", returned):
        yield "a predicate that does not return a bool"
    if words and words[0] == "when":
        yield "a callback is registered by add_…_callback or subscribe"
    parameters = [each.arg for each in node.args.args if each.arg != "self"]
    registers = re.fullmatch(r"add_\w+_callback", node.name)
    if registers and parameters != ["callback"]:
        yield "what is registered is the parameter callback"


def _broken() -> Iterator[tuple[str, str, str]]:
    """Room, definition and the rule it breaks."""
    for module, node, owner in DEFINITIONS:
        assert isinstance(node, ast.ClassDef | Function)
        is_sentence = module.startswith(CHECKS) and len(_words(node.name)) > 3
        if node.name.startswith("__") or is_sentence:
            continue
        name = f"{module}:{f'{owner.name}.' if owner else ''}{node.name}"
        room = module.split("/")[0]
        if isinstance(node, Function):
            for rule in _broken_by_function(node, owner):
                yield room, name, rule
        words = _words(node.name)
        for word in words[1:] if set(words[:1]) & VERBS else words:
            if PICTURES.fullmatch(word):
                yield room, name, f"a picture: {word!r}"
            if PRONOUNS.fullmatch(word):
                yield room, name, f"a pronoun: {word!r}"


BROKEN = list(_broken())


@pytest.mark.parametrize("room", ROOMS)
def test_names_of_a_room_are_plain(room: str) -> None:
    found = [f"{name}: {rule}" for where, name, rule in BROKEN if where == room]
    assert [each for each in found if each.split(": ")[0] not in EXCEPTIONS] == []


def test_one_class_has_one_name() -> None:
    """Peers on one shelf may share a name; no other two classes do."""
    places = defaultdict(set)
    for module, node, _ in DEFINITIONS:
        if isinstance(node, ast.ClassDef):
            shelf = module.split("/")[0]
            places[node.name.lstrip("_")].add(shelf if shelf in SHELVES else module)
    found = {name: sorted(where) for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in found.items() if name not in EXCEPTIONS} == {}


def test_the_exceptions_are_few_and_needed() -> None:
    names = {name for _, name, _ in BROKEN} | {
        node.name for _, node, _ in DEFINITIONS if isinstance(node, ast.ClassDef)
    }
    assert EXCEPTIONS.keys() <= names
    assert len(EXCEPTIONS) < 20
