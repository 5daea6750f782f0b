"""All routes, one module per resource."""

from awaken.server import health, metrics
from awaken.server.routes import ai_sdk, runs, streams

ROUTES = (
    *runs.ROUTES,
    *streams.ROUTES,
    *ai_sdk.ROUTES,
    *health.ROUTES,
    *metrics.ROUTES,
)
