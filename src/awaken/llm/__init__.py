"""Executors that ask models, and those that wrap others. Import them from their modules."""
