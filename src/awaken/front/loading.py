"""Names and addresses to things; what is behind a name is imported when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from awaken.contract.backend import ExecutionBackendFactory
from awaken.contract.llm import LlmExecutor
from awaken.contract.store import Store
from awaken.errors import ConfigError

_MODELS = {"demo": ("awaken.llm.demo", "DemoModel")}
_BACKENDS = {
    "a2a": ("awaken.backend.a2a", "A2aBackendFactory"),
    "subprocess": ("awaken.backend.subprocess", "SubprocessBackendFactory"),
}
_STORES = {
    "memory": ("awaken.stores.memory", "MemoryStore"),
    "sqlite": ("awaken.stores.sqlite", "SqliteStore"),
}


def load(module: str, name: str) -> Any:
    """One name of a module."""
    return getattr(import_module(module), name)


def open_model(name: str) -> LlmExecutor:
    """The model a name like `demo` or `provider:model` stands for.

    Raises:
        ConfigError: nobody knows the provider.
    """
    provider = name.partition(":")[0]
    if provider not in _MODELS:
        raise ConfigError(
            f"model {name!r}: provider {provider!r} is unknown; known: {', '.join(_MODELS)}. "
            "Any object with `name` and `execute_stream(request)` can be given as a model, too"
        )
    make: Callable[[], LlmExecutor] = load(*_MODELS[provider])
    return make()


def open_backend(name: str, agent_id: str) -> ExecutionBackendFactory:
    """The maker of backends of that kind, for an agent that names it.

    Raises:
        ConfigError: none of that name comes with the library.
    """
    if name not in _BACKENDS:
        raise ConfigError(
            f"agent {agent_id!r}: backend {name!r} is unknown; known: {', '.join(_BACKENDS)}. "
            "Backends of your own are given with their maker: Runtime(…, backends=[…])"
        )
    make: Callable[[], ExecutionBackendFactory] = load(*_BACKENDS[name])
    return make()


def open_store(address: str) -> Store:
    """The store at an address such as `sqlite:///awaken.db`; nothing is opened yet.

    Raises:
        ConfigError: nobody knows the scheme.
    """
    scheme = address.partition(":")[0]
    if scheme not in _STORES:
        raise ConfigError(
            f"store {address!r}: scheme {scheme!r} is unknown; known: "
            + ", ".join(f"{known}:" for known in _STORES)
        )
    store: Store = load(*_STORES[scheme]).from_address(address)
    return store
