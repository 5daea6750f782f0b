"""Registries of agents, tools and models, and the resolver that makes agents ready to run."""

from awaken.registry.registries import MapRegistry, RegistryHandle, RegistrySet
from awaken.registry.resolve import RegistryResolver

__all__ = ["MapRegistry", "RegistryHandle", "RegistryResolver", "RegistrySet"]
