"""The nouns: frozen values without I/O. Import them from the modules that define them."""
