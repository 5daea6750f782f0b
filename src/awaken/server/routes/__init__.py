"""All routes, one module per resource."""

from awaken.server.routes import runs

ROUTES = (*runs.ROUTES,)
