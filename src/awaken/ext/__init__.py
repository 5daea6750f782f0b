"""Built-in plugins; none imports another."""
