"""Executors that ask models, and executors that wrap others. Import them from their modules."""
