"""Specs in, resolved agents out."""

from awaken.registry.registries import MapRegistry, RegistryHandle, RegistrySet
from awaken.registry.resolve import RegistryResolver

__all__ = ["MapRegistry", "RegistryHandle", "RegistryResolver", "RegistrySet"]
