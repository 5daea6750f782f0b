"""The domain's frozen values, without I/O. Import them from the modules that define them."""
