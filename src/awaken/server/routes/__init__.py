"""All routes, one module per resource."""

from awaken.server.routes import ai_sdk, runs

ROUTES = (
    *runs.ROUTES,
    *ai_sdk.ROUTES,
)
