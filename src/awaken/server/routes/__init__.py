"""All routes, one module per resource."""

from awaken.server import health, metrics
from awaken.server.routes import (
    agents,
    control,
    document,
    events,
    messages,
    runs,
    threads,
    tickets,
    tokens,
)

ROUTES = (
    *agents.ROUTES,
    *threads.ROUTES,
    *messages.ROUTES,
    *runs.ROUTES,
    *events.ROUTES,
    *control.ROUTES,
    *tickets.ROUTES,
    *tokens.ROUTES,
    *document.ROUTES,
    *health.ROUTES,
    *metrics.ROUTES,
)
