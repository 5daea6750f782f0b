"""Live buses between machines, one package for each technology."""
