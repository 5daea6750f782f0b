"""Models, backends and stores by name or address; each is imported when it is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from os import PathLike, fspath
from types import ModuleType
from typing import TYPE_CHECKING, Any

from awaken.core.secret import redact_address
from awaken.core.spec import ModelPoolSpec, PoolHome, PoolMemberSpec, PoolRouting
from awaken.errors import ConfigError
from awaken.runtime.hints import suggest_model

if TYPE_CHECKING:
    from awaken.clock import Clock
    from awaken.core.backend import ExecutionBackendFactory
    from awaken.core.blobs import BlobStore
    from awaken.core.bus import LiveBus
    from awaken.core.llm import LlmExecutor
    from awaken.core.store.store import Store

_COMPLETE = {
    "demo": ("awaken.models.demo", "DemoModel"),
    "local": ("awaken.models.local", "open_local"),
}
"""Names that stand for a model without a provider before them."""
_PROVIDERS = {
    "openai": ("awaken.models.openai", "open_openai"),
    "openai-chat": ("awaken.models.openai", "open_openai_chat"),
    "azure": ("awaken.models.openai", "open_azure"),
    "openrouter": ("awaken.models.openai", "open_openrouter"),
    **{  # the table of `awaken.models.openai.providers`
        name: ("awaken.models.openai", f"open_{name}")
        for name in [
            "groq",
            "mistral",
            "deepseek",
            "xai",
            "together",
            "fireworks",
            "cerebras",
            "moonshot",
            "zai",
            "huggingface",
        ]
    },
    "ollama": ("awaken.models.openai", "open_ollama"),
    "vllm": ("awaken.models.openai", "open_vllm"),
    "llamacpp": ("awaken.models.openai", "open_llamacpp"),
    "anthropic": ("awaken.models.anthropic", "open_anthropic"),
    "bedrock": ("awaken.models.anthropic", "open_bedrock"),
    "bedrock-converse": ("awaken.models.bedrock", "open_bedrock_converse"),
    "vertex": ("awaken.models.anthropic", "open_vertex"),
    "google": ("awaken.models.google", "open_google"),
    "google-vertex": ("awaken.models.google", "open_google_vertex"),
}
"""Providers: names that are followed by a colon and the provider's name for a model."""
_BACKENDS = {
    "a2a": ("awaken.backend.a2a", "A2aBackendFactory"),
    "subprocess": ("awaken.backend.subprocess", "SubprocessBackendFactory"),
}
_STORES = {
    "memory": ("awaken.stores.memory", "MemoryStore"),
    "sqlite": ("awaken.stores.sqlite", "SqliteStore"),
    "postgresql": ("awaken.stores.postgres", "PostgresStore"),
    "postgres": ("awaken.stores.postgres", "PostgresStore"),
}
_BUSES = {
    "nats": ("awaken.bus", "NatsBus"),
    "tls": ("awaken.bus", "NatsBus"),
}


def load(module: str, name: str) -> Any:
    """One name of a module."""
    return getattr(import_module(module), name)


def import_from_folder(name: str, folder: str) -> ModuleType:
    """The module a user has named, from the folder if the folder has it.

    Modules it imports come from the folder only if no installed module has the same name: a
    `msgspec.py` in the folder does not replace the library.

    Raises:
        ImportError: there is no such module, or it cannot be loaded.
    """
    if folder not in sys.path:
        sys.path.append(folder)
    top = name.partition(".")[0]
    found = PathFinder.find_spec(top, [folder]) if top not in sys.modules else None
    if found is not None and found.loader is not None and found.has_location:
        module = sys.modules[top] = module_from_spec(found)
        try:
            found.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(top, None)
            raise
    return import_module(name)


def open_model(name: str) -> LlmExecutor:
    """The model that a name like `demo` or `openai:gpt-5-mini` stands for.

    Raises:
        ConfigError: the provider is unknown, or its key or SDK is missing.
    """
    provider, _, model = name.partition(":")
    known = _PROVIDERS if model.strip() else _COMPLETE
    if provider not in known:
        raise ConfigError(
            f"model {name!r}: {_explain_unknown_model(name, provider, model.strip())}"
        )
    make: Callable[[], LlmExecutor] = load(*known[provider])
    return make()


def _explain_unknown_model(name: str, provider: str, model: str) -> str:
    if provider in _PROVIDERS:
        return f"which of the models of {provider!r}? Write '{provider}:' and its name"
    if provider in _COMPLETE:
        return f"{provider!r} is a model by itself: leave out ':{model}'"
    known = ", ".join([*_COMPLETE, *(f"{each}:…" for each in _PROVIDERS)])
    meant = suggest_model(name, _COMPLETE, _PROVIDERS)
    hint = "; known" if meant is None else f": did you mean {meant!r}? Known"
    return (
        f"provider {provider!r} is unknown{hint}: {known}. Any object with `name` and "
        "`execute_stream(request)` can be given as a model, too"
    )


def as_pool(agent_id: str, names: Sequence[object]) -> ModelPoolSpec:
    """A list of models as a pool: the first is asked as long as it works, then the next.

    Raises:
        ConfigError: `names` is empty, or not all of them are text.
    """
    ids = [name for name in names if isinstance(name, str) and name.strip()]
    if not ids or len(ids) != len(names):
        raise ConfigError(
            f"agent {agent_id!r}: several models are given by their names, as in "
            f"model=['openai:gpt-5-mini', 'anthropic:claude-sonnet-5'], not {list(names)!r}"
        )
    try:
        return ModelPoolSpec(
            id=" | ".join(ids),
            members=tuple(PoolMemberSpec(model_id=id) for id in ids),
            routing=PoolRouting(home=PoolHome.FIRST_HEALTHY),
        )
    except ValueError as error:
        raise ConfigError(f"agent {agent_id!r}: {error}") from error


def open_backend(name: str, agent_id: str) -> ExecutionBackendFactory:
    """The factory of a backend that comes with the library, for an agent that names it.

    Raises:
        ConfigError: the library has no backend of that name.
    """
    if name not in _BACKENDS:
        raise ConfigError(
            f"agent {agent_id!r}: backend {name!r} is unknown; known: {', '.join(_BACKENDS)}. "
            "For a backend of your own, pass its factory: Runtime(…, backends=[…])"
        )
    make: Callable[[], ExecutionBackendFactory] = load(*_BACKENDS[name])
    return make()


def open_store(address: str) -> Store:
    """The store at an address such as `sqlite:///awaken.db`; it is not opened yet.

    Raises:
        ConfigError: the address has no scheme, or an unknown one; or an extra is not installed.
    """
    scheme, colon, _ = address.partition(":")
    if scheme not in _STORES:
        if address.strip() and not colon:
            raise _no_address(address)
        raise ConfigError(
            f"store {redact_address(address)!r}: scheme {scheme!r} is unknown; known: "
            + ", ".join(f"{known}:" for known in _STORES)
        )
    try:
        kind = load(*_STORES[scheme])
    except ModuleNotFoundError as error:
        raise ConfigError(f"store {redact_address(address)!r}: {error}") from error
    store: Store = kind.from_address(address)
    return store


def open_bus(address: str) -> LiveBus:
    """The live bus at an address such as `nats://host:4222`; it is not opened yet.

    Raises:
        ConfigError: the address is malformed, or what it needs is not installed.
    """
    scheme, _, _ = address.partition(":")
    if scheme not in _BUSES:
        raise ConfigError(
            f"bus {redact_address(address)!r} is no address of a bus: write 'nats://host:4222'"
        )
    try:
        bus: LiveBus = load(*_BUSES[scheme]).from_address(address)
    except ModuleNotFoundError as error:
        raise ConfigError(f"bus {redact_address(address)!r}: {error}") from error
    return bus


def blobs_beside(store: Store, clock: Clock) -> BlobStore | None:
    """The blob store that belongs to a store: its own, or the folder it names; else `None`."""
    own: BlobStore | None = getattr(store, "blobs", None)
    folder: str | None = getattr(store, "blobs_folder", None)
    if own is not None or folder is None:
        return own
    beside: BlobStore = load("awaken.blobs", "FolderBlobs")(folder, store, clock=clock)
    return beside


def parse_store(given: Store) -> Store:
    """Returns the store if it is one.

    Raises:
        ConfigError: it is not a store; the text says what to pass instead.
    """
    store: Any = given
    if isinstance(store, PathLike):
        raise _no_address(store)
    if isinstance(store, type):
        raise ConfigError(
            f"store: {store.__name__} is a class; give an instance of it, or an address"
        )
    if not callable(getattr(store, "commit", None)) or not hasattr(store, "profiles"):
        raise ConfigError(
            f"store is an address such as 'sqlite:///awaken.db', or a store, not {store!r}"
        )
    return given


def _no_address(file: str | PathLike[str]) -> ConfigError:
    from urllib.parse import quote  # noqa: PLC0415  # only this error needs it

    return ConfigError(f"store {file!r} is no address: write 'sqlite:///{quote(fspath(file))}'")
