"""Plugins: they add hooks, gates, handlers, transforms, tools, services and state keys."""
