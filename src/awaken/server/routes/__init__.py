"""All routes, one module per resource."""

from awaken.server import health, metrics
from awaken.server.routes import runs, streams

ROUTES = (*runs.ROUTES, *streams.ROUTES, *health.ROUTES, *metrics.ROUTES)
