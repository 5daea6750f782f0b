"""The console: the pages in which people see what agents did, answer them and stop them."""

from awaken.server.console.audit import Audit, Audited
from awaken.server.console.pages import Pages
from awaken.server.console.sessions import Sessions

__all__ = ["Audit", "Audited", "Pages", "Sessions"]
