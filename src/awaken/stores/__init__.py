"""Stores: implementations of `contract.store.Store`, one folder for each technology."""
