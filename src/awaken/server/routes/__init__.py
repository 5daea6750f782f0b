"""All routes, one module per resource."""

from awaken.server import health, metrics
from awaken.server.routes import (
    ag_ui,
    agents,
    ai_sdk,
    audit,
    control,
    document,
    events,
    inspect,
    runs,
    search,
    session,
    steps,
    threads,
    tickets,
)

ROUTES = (
    *agents.ROUTES,
    *threads.ROUTES,
    *runs.ROUTES,
    *search.ROUTES,
    *events.ROUTES,
    *control.ROUTES,
    *tickets.ROUTES,
    *session.ROUTES,
    *steps.ROUTES,
    *inspect.ROUTES,
    *audit.ROUTES,
    *document.ROUTES,
    *ai_sdk.ROUTES,
    *health.ROUTES,
    *metrics.ROUTES,
    *ag_ui.ROUTES,
)
