"""The console: the pages in which people see what agents did, answer them and stop them."""

from awaken.server.console.audit import Audit, AuditMiddleware
from awaken.server.console.pages import Pages
from awaken.server.console.sessions import Sessions

__all__ = ["Audit", "AuditMiddleware", "Pages", "Sessions"]
