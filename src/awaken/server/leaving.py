"""What becomes of a run whose client leaves before its stream has ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from awaken.server.call import Call
from awaken.server.errors import Refused
from awaken.server.lookup import may_see_in
from awaken.server.route import Role

HEADER = "x-awaken-on-disconnect"
QUERY = "on_disconnect"


async def on_leave(call: Call, id: str, thread_id: str) -> Callable[[], Awaitable[object]] | None:
    """What to do when the client leaves: nothing, unless it has asked for its run to be cancelled.

    Args:
        id: the id inside of the run, or of the thread whose open run it is.
        thread_id: the id inside of the run's thread.

    Raises:
        Refused: the client only watches the run, and may not cancel it.
    """
    asked = call.request.headers.get(HEADER) or call.request.query_params.get(QUERY)
    if asked != "cancel":
        return None
    submits = call.request.method == "POST"  # the run is the client's own then
    if not submits and not await _may_cancel(call, thread_id):
        raise Refused(
            403, "missing_role", "the run of another client is cancelled with role decide"
        )
    return lambda: call.runtime.cancel(id, deadline=0, principal=call.principal)


async def _may_cancel(call: Call, thread_id: str) -> bool:
    can = call.has(Role.INVOKE, Role.DECIDE)
    return can and await may_see_in(call, thread_id, (Role.DECIDE,))
