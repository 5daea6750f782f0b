"""Registries of agents, tools and models, and the resolver that makes agents ready to run."""

from awaken.engine.registries import MapRegistry, RegistryHandle, RegistrySet
from awaken.engine.resolve import RegistryResolver

__all__ = ["MapRegistry", "RegistryHandle", "RegistryResolver", "RegistrySet"]
