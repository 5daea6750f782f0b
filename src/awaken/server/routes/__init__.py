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
    session,
    steps,
    threads,
    tickets,
)
from awaken.server.routes import session as tokens
from awaken.server.routes import threads as messages
from awaken.server.routes import tickets as ticket_export

ROUTES = (
    *agents.ROUTES,
    *threads.ROUTES,
    *messages.ROUTES,
    *runs.ROUTES,
    *events.ROUTES,
    *control.ROUTES,
    *ticket_export.ROUTES,  # before the tickets themselves: no ticket has this key
    *tickets.ROUTES,
    *tokens.ROUTES,
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
