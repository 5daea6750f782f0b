"""AG-UI, protocol versions 1.0 and 0.0.59."""
