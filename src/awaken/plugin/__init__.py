"""How behaviour is added: hooks, gates, handlers, transforms, tools and state keys."""
